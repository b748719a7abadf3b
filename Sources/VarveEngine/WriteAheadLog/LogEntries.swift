/// The entries of a log record, each with its sequence, whatever the record's kind.
///
/// What it meets comes from disk: nothing is trusted.
struct LogEntryReader {
  private var reader: ByteReader
  private let kind: LogFormat.RecordKind
  /// Of the entry read last, and of the record before the first.
  private var sequence: UInt64
  private var isFirst = true

  init(_ record: LogReader.Record, file: String) {
    reader = ByteReader(
      record.payload, file: file, fileOffset: UInt64(record.offset + LogFormat.recordHeaderSize))
    kind = record.header.kind
    sequence = record.header.sequence.value
  }

  /// The next entry, or nil at the end. Throws `.corruption`, or `.unsupportedFormat` for an entry of a
  /// kind that this version does not know.
  mutating func next() throws(EngineError) -> (sequence: SequenceNumber, entry: BatchReader.Entry)? {
    guard kind != .end, !reader.isAtEnd else { return nil }
    // In a batch the sequences follow one another; an entry that is logged again says how far it is.
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
  /// The sequence of the first entry, which the record has; nil while there is none.
  private(set) var first: SequenceNumber?
  private var last: UInt64 = 0

  init(capacity: Int) { payload = ByteWriter(capacity: capacity) }

  /// At most so many bytes does an entry take.
  static func sizeMaximum(_ kind: EntryKind, _ family: FamilyID, keySize: Int, valueSize: Int) -> Int {
    10 + BatchFormat.entrySize(kind, family, keySize: keySize, valueSize: valueSize)
  }

  /// Adds an entry whose sequence is above all before.
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
