internal import Synchronization

/// Tests whether rows fulfil a condition: from their stored bytes if possible, and from decoded instances otherwise.
///
/// Safe from any thread.
final class RowFilter<Format: StoreFormat>: Sendable {
  private let condition: Condition<Format.Instance>
  private let reading: AnswerReading<Format>
  private let source: any StorageReading
  /// The condition for stored rows, or nil if rows have to be decoded.
  private let stored: StoredCondition<Format>?
  private let readers = Mutex<[Held]>([])

  /// A reader that one caller uses at a time and then returns.
  private final class Held: @unchecked Sendable {
    let reader: StoredReader
    init(_ reader: StoredReader) { self.reader = reader }
  }

  /// The result of testing a stored row.
  enum Verdict {
    case fulfils
    case fails
    /// The row has to be decoded to evaluate the condition.
    case unknown
  }

  init(
    _ condition: Condition<Format.Instance>, _ reading: AnswerReading<Format>, _ source: any StorageReading
  ) {
    self.condition = condition
    self.reading = reading
    self.source = source
    // A stand-in has other fields than the row.
    let isReadable = reading.info.coder == .binary && Format.readsStoredFields && Format.undecodable.standIn == nil
    stored = isReadable ? StoredCondition(condition) : nil
  }

  private var access: RowAccess<Format> { reading.access }
  private var info: CollectionInfo { reading.info }

  /// Returns the instance of a row if it fulfills the condition and is not left out, and nil otherwise.
  func instance(_ key: [UInt8], _ bytes: [UInt8]) throws -> Format.Instance? {
    switch try verdict(key, bytes) {
    case .fails: return nil
    case .fulfils: return try reading.instance(key, bytes, source)
    case .unknown:
      guard let instance = try reading.instance(key, bytes, source) else { return nil }
      return try condition.holds(for: instance) ? instance : nil
    }
  }

  /// Returns whether a row fulfills the condition and is not left out.
  func fulfils(_ key: [UInt8], _ bytes: [UInt8]) throws -> Bool {
    switch try verdict(key, bytes) {
    case .fails: return false
    case .fulfils where !Format.decodesEachRow: return true
    case .fulfils: return try reading.instance(key, bytes, source) != nil
    case .unknown:
      guard let instance = try reading.instance(key, bytes, source) else { return false }
      return try condition.holds(for: instance)
    }
  }

  private func verdict(_ key: [UInt8], _ bytes: [UInt8]) throws -> Verdict {
    try withReader { reader in try unsafe reader.verdict(bytes.span.bytes) { key } }
  }

  /// Calls `body` to test many rows with one reader.
  func withReader<Result>(_ body: (StoredRows) throws -> Result) rethrows -> Result {
    guard let stored else { return try body(StoredRows(filter: self, stored: nil, reader: nil)) }
    let held =
      readers.withLock { $0.popLast() }
      ?? Held(StoredReader(stored.predicate.fields.map(\.names), access.core.coding.binaryCoder))
    defer { readers.withLock { $0.append(held) } }
    return try body(StoredRows(filter: self, stored: stored, reader: held.reader))
  }

  /// Tests stored rows one after the other.
  struct StoredRows {
    fileprivate let filter: RowFilter
    fileprivate let stored: StoredCondition<Format>?
    fileprivate let reader: StoredReader?

    /// Tests a row. `key` is called if the row has to be decoded for comparison. Throws `.invalidDefinition` if
    /// decoding changes a field, because rows may then have been left out.
    func verdict(_ row: RawSpan, key: () throws -> [UInt8]) throws -> Verdict {
      guard let stored, let reader else { return .unknown }
      do {
        return try ask(row, stored, reader, key)
      } catch let error as DatabaseError where error.code == .invalidDefinition {
        throw error
      } catch {
        // A row that cannot be read from its bytes is decoded, which then throws the reason.
        return .unknown
      }
    }

    private func ask(
      _ row: RawSpan, _ stored: StoredCondition<Format>, _ reader: StoredReader, _ key: () throws -> [UInt8]
    ) throws -> Verdict {
      let (header, start) = try RowHeader.read(row)
      // Rows of older versions are converted when they are decoded.
      guard header.version == filter.info.versions.current else { return .unknown }
      return try unsafe row.withUnsafeBytes { bytes in
        let source = unsafe ByteSource(UnsafeRawBufferPointer(rebasing: bytes[start...]))
        guard try reader.find(source, shape: header.shape) else { return .unknown }
        if reader.agreements < StoredFieldProof.agreementsNeeded {
          reader.agreements = StoredFieldProof.agreements(stored)
          if reader.agreements < 0 { return .unknown }
          if reader.agreements < StoredFieldProof.agreementsNeeded {
            if try agrees(row, stored, reader, source, key) != nil { return .unknown }
            // The stored fields are all that is known of a row that can't be decoded, whatever has been proved so far.
          }
        }
        if try stored.predicate.holds(reader, source) { return .fulfils }
        reader.leftOut &+= 1
        guard reader.leftOut & Self.comparedMask == 0 else { return .fails }
        guard try agrees(row, stored, reader, source, key) ?? true else { throw filter.changes }
        return .fails
      }
    }

    /// Compares the stored fields of a row with its decoded instance, or returns nil if it can't be decoded.
    private func agrees(
      _ row: RawSpan, _ stored: StoredCondition<Format>, _ reader: StoredReader, _ source: ByteSource,
      _ key: () throws -> [UInt8]
    ) throws -> Bool? {
      do {
        return try StoredFieldProof.compare(stored, filter.row(row, try key()), filter.access, reader, source)
      } catch let error as DatabaseError where error.isOfUndecodableRow { return nil }
    }

    /// The mask that selects the rows that are decoded for comparison: one of 256 of the rows that are left out.
    private static var comparedMask: Int { 255 }
  }

  private func row(_ bytes: RawSpan, _ key: [UInt8]) throws -> StoredRow {
    try StoredRow(key: key, bytes: bytes.copied, info: info)
  }

  private var changes: DatabaseError {
    DatabaseError(
      .invalidDefinition,
      "\(Format.Instance.self) decodes a field to another value than the one that is stored, so the stored fields of \(Format.self) can't be compared; write `static let readsStoredFields = false` in the format",
      collection: info.name)
  }
}
