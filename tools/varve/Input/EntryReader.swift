/// Reads the entries of a source in one of the two forms. Its errors name the line or the byte.
struct EntryReader {
  private let source: ByteSource
  private let file: String
  private let isBinary: Bool
  private var line = 0
  private var family: String?
  private var binaryCount: UInt64 = 0
  private var isEnded = false
  /// The options of the family whose first entry follows.
  private var options: FamilyOptionsRecord?
  /// The first entry, if it was read before the database was opened.
  private var first: InputEntry?

  /// Creates a reader that begins at the source's current position.
  init(_ source: ByteSource, file: String, isBinary: Bool) {
    self.source = source
    self.file = file
    self.isBinary = isBinary
  }

  /// The position and state of the reader, for `LoadProgress`.
  var state: LoadProgress.ReaderState {
    get { LoadProgress.ReaderState(line: line, family: family, binaryCount: binaryCount) }
    set {
      line = newValue.line
      family = newValue.family
      binaryCount = newValue.binaryCount
    }
  }

  mutating func next() throws -> InputEntry? {
    if let entry = first.take() { return entry }
    return isBinary ? try nextBinary() : try nextLine()
  }

  /// Returns the next entry, and keeps it for `next`.
  mutating func peek() throws -> InputEntry? {
    first = try next()
    return first
  }

  // MARK: - JSON Lines

  private mutating func nextLine() throws -> InputEntry? {
    while let bytes = try source.nextLine() {
      line += 1
      if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }) { continue }
      do {
        let record = try JSONText.decode(EntryRecord.self, bytes)
        return InputEntry(
          family: record.family, options: record.familyOptions, key: try record.keyBytes(),
          value: try record.valueBytes())
      } catch {
        let reason = (error as? RecordError)?.message ?? "it is not an object of an entry"
        throw ToolError(.cannotOpen, "line \(line): \(reason)", file: file)
      }
    }
    return nil
  }

  // MARK: - Binary

  private mutating func nextBinary() throws -> InputEntry? {
    if isEnded { return nil }
    if source.position == 0 { try readMagic() }
    while true {
      switch BinaryStream.Kind(rawValue: try read(1)[0]) {
      case .end: return try readEnd()
      case .family:
        let name = try read(try readCount())
        guard let text = String(validating: name, as: UTF8.self) else {
          throw damage("the name of a column family is not UTF-8")
        }
        family = text.isEmpty ? nil : text
        options = nil
      case .options:
        do { options = try JSONText.decode(FamilyOptionsRecord.self, try read(try readCount())) } catch {
          throw (error as? ToolError) ?? damage("the options of a column family can't be read")
        }
      case .entry:
        let keySize = try readCount()
        let valueSize = try readCount()
        let key = try read(keySize)
        binaryCount += 1
        return InputEntry(family: family, options: options.take(), key: key, value: try read(valueSize))
      case nil: throw damage("no record begins here")
      }
    }
  }

  private func readMagic() throws {
    guard try source.next(BinaryStream.magic.count) == BinaryStream.magic else {
      throw damage("it is not an export in binary form")
    }
  }

  private mutating func readEnd() throws -> InputEntry? {
    let count = try read(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard count == binaryCount else {
      throw damage("the end says that \(count) entries came, and \(binaryCount) did")
    }
    isEnded = true
    return nil
  }

  private func readCount() throws -> Int {
    let count = try read(4).reversed().reduce(0) { $0 << 8 | Int($1) }
    guard count <= BinaryStream.sizeMaximum else { throw damage("a size of \(count) bytes is above the limit") }
    return count
  }

  private func read(_ count: Int) throws -> [UInt8] {
    guard let bytes = try source.next(count) else { throw damage("it ends in the middle of a record") }
    return bytes
  }

  private func damage(_ message: String) -> ToolError {
    ToolError(.cannotOpen, "byte \(source.position): \(message)", file: file)
  }
}
