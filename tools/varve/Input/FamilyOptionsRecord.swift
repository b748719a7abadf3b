import VarveEngine

/// The options of a column family in an export, with which `load` makes the family.
///
/// An example is `{"compression":"zstd","mergeOperator":"varve.counter"}`. The names are those of `FamilyOptions` and
/// of `varve info`; an option that has its default is absent. On disk: never change a name.
struct FamilyOptionsRecord: Codable {
  let options: FamilyOptions
  /// The names of options that this version doesn't know, and of those with values that it doesn't know.
  let unknown: [String]

  /// Creates the record of a family. Returns `nil` if all its options are the defaults.
  init?(_ options: FamilyOptions) {
    guard options != FamilyOptions() else { return nil }
    self.options = options
    unknown = []
  }

  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
    init(_ known: Known) { stringValue = known.rawValue }
  }

  private enum Known: String {
    case compression, mergeOperator, isVolatile, memtableSize
  }

  init(from decoder: any Decoder) throws {
    let members = try decoder.container(keyedBy: Name.self)
    var options = FamilyOptions()
    var unknown: [String] = []
    for name in members.allKeys.sorted(by: { $0.stringValue < $1.stringValue }) {
      switch Known(rawValue: name.stringValue) {
      case .compression:
        let text = try members.decode(String.self, forKey: name)
        options.compression = CompressionKind(rawValue: text)
        if options.compression == nil { unknown.append("\(name.stringValue) \(text)") }
      case .mergeOperator: options.mergeOperator = try members.decode(String.self, forKey: name)
      case .isVolatile: options.isVolatile = try members.decode(Bool.self, forKey: name)
      case .memtableSize: options.memtableSize = try members.decode(Int.self, forKey: name)
      case nil: unknown.append(name.stringValue)
      }
    }
    self.options = options
    self.unknown = unknown
  }

  func encode(to encoder: any Encoder) throws {
    var members = encoder.container(keyedBy: Name.self)
    try members.encodeIfPresent(options.compression?.rawValue, forKey: Name(.compression))
    try members.encodeIfPresent(options.mergeOperator, forKey: Name(.mergeOperator))
    if options.isVolatile { try members.encode(true, forKey: Name(.isVolatile)) }
    try members.encodeIfPresent(options.memtableSize, forKey: Name(.memtableSize))
  }
}

extension FamilyOptions {
  /// The options that differ from the defaults, for people: `mergeOperator varve.counter, compression zstd`.
  var text: String {
    var words: [String] = []
    if let mergeOperator { words.append("mergeOperator \(PrintableText.text(mergeOperator))") }
    if let compression { words.append("compression \(compression.rawValue)") }
    if let memtableSize { words.append("memtableSize \(memtableSize)") }
    if isVolatile { words.append("isVolatile") }
    return words.isEmpty ? "the defaults" : words.joined(separator: ", ")
  }
}
