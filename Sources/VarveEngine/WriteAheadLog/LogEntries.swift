/// Reads the entries of a log record of any kind, each with its sequence.
///
/// The input comes from disk and is fully validated.
struct LogEntryReader {
  private var reader: ByteReader
  private let kind: LogFormat.RecordKind
  /// The sequence of the entry read last; the record's sequence before the first entry.
  private var sequence: UInt64
  private var isFirst = true

  init(_ record: LogReader.Record, file: String) {
    reader = ByteReader(
      record.payload, file: file, fileOffset: UInt64(record.offset + LogFormat.recordHeaderSize))
    kind = record.header.kind
    sequence = record.header.sequence.value
  }

  /// Returns the next entry, or nil at the end. Throws `.corruption`, or `.unsupportedFormat` for an entry of a kind
  /// that this version does not know.
  mutating func next() throws(EngineError) -> (sequence: SequenceNumber, entry: BatchReader.Entry)? {
    guard kind != .end, !reader.isAtEnd else { return nil }
    // Entries of a batch have consecutive sequences; an entry that is logged again stores its distance.
    let step = kind == .entries ? try reader.varint() : isFirst ? 0 : 1
    let limit = SequenceNumber.maximum.value
    guard isFirst || step > 0, sequence <= limit, step <= limit, sequence + step <= limit else {
      throw reader.corruption("log entry has a sequence number \(step) above \(sequence), which is out of range")
    }
    isFirst = false
    sequence += step
    return (SequenceNumber(sequence), try BatchReader.entry(&reader))
  }
}

/// Builds the payload of a record of kind *entries* (`LogFormat`).
struct LogEntriesBuilder: ~Copyable {
  private(set) var payload: ByteWriter
  /// The sequence of the first entry, stored in the record header, or `nil` while there are no entries.
  private(set) var first: SequenceNumber?
  private var last: UInt64 = 0

  init(capacity: Int) { payload = ByteWriter(capacity: capacity) }

  /// The maximum encoded size of an entry in bytes.
  static func sizeMaximum(_ kind: EntryKind, _ family: FamilyID, keySize: Int, valueSize: Int) -> Int {
    10 + BatchFormat.entrySize(kind, family, keySize: keySize, valueSize: valueSize)
  }

  /// Appends an entry. Its sequence must be above that of every entry before.
  mutating func append(
    _ sequence: SequenceNumber, _ kind: EntryKind, _ family: FamilyID, _ key: ByteView, _ value: ByteView
  ) {
    precondition(first == nil || sequence.value > last, "entries that are logged again ascend by sequence: sort them")
    payload.append(varint: first == nil ? 0 : sequence.value - last)
    BatchFormat.append(kind, family, key, value, to: &payload)
    if first == nil { first = sequence }
    last = sequence.value
  }

  mutating func removeAll() {
    payload.removeAll()
    first = nil
  }
}
