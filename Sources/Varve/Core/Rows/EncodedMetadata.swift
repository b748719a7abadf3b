/// The encoded metadata of a row that is being written.
struct EncodedMetadata {
  /// The metadata as stored in their family.
  let bytes: [UInt8]
  /// The value for hooks, or `nil` if no extension is registered.
  var value: Any?
}
