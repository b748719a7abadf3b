/// Asks rows whether they fulfil a condition.
struct RowFilter<Format: StoreFormat>: Sendable {
  private let condition: Condition<Format.Instance>
  private let access: RowAccess<Format>
  private let info: CollectionInfo
  private let source: any StorageReading

  init(
    _ condition: Condition<Format.Instance>, _ access: RowAccess<Format>, _ info: CollectionInfo,
    _ source: any StorageReading
  ) {
    self.condition = condition
    self.access = access
    self.info = info
    self.source = source
  }

  /// The instance of a row that fulfils the condition; nil of another.
  func instance(_ key: [UInt8], _ bytes: [UInt8]) throws -> Format.Instance? {
    let instance = try access.instance(key, bytes, info, source)
    return try condition.holds(for: instance) ? instance : nil
  }

  func fulfils(_ key: [UInt8], _ bytes: [UInt8]) throws -> Bool { try instance(key, bytes) != nil }
}
