/// A segment of the log as text, a record a line: what `varve dump log` prints and tests compare.
///
/// ```
/// segment 7 life 5a0c… capacity 262144 predecessor 6 ends at 8232
/// 4096 batch sequence 1 durable 0 size 24
///   1 put family 0 "key" = "value"
/// 4160 end durable 4160
/// 4192 entries sequence 1 durable 4160 size 40
///   1 put family 0 "key" = "value"
///   9 delete family 0 "other"
/// ends at 4264
/// ```
///
/// A segment that begins after a failed sync has `restart` after its predecessor.
enum LogDump {
  /// Renders a segment. With `verify`, also searches for damage past the last readable record.
  static func render(
    _ file: any File, number: FileNumber, name: String, verify: Bool, line: (String) -> Void
  ) throws(EngineError) {
    guard var reader = try LogReader.open(file, number: number, name: name) else {
      line("segment \(number) is empty: it has no header of its own")
      return
    }
    line(describe(reader.header))
    while let record = reader.next() {
      line(describe(record))
      try renderEntries(record, name: name, line: line)
    }
    line("ends at \(reader.offset)")
    guard verify, let witness = reader.findDurableMark(above: UInt64(reader.offset)) else { return }
    throw .corruption(
      "the record at \(witness.offset) promises that bytes before \(witness.header.durableMark) were durable",
      file: name, offset: UInt64(reader.offset))
  }

  private static func describe(_ header: LogSegmentHeader) -> String {
    var text = "segment \(header.number) life \(String(header.lifeID, radix: 16)) capacity \(header.capacity)"
    if let predecessor = header.predecessor {
      text += " predecessor \(predecessor.number) ends at \(predecessor.end)"
    }
    return header.isRestart ? text + " restart" : text
  }

  private static func describe(_ record: LogReader.Record) -> String {
    switch record.header.kind {
    case .batch, .entries:
      "\(record.offset) \(record.header.kind) sequence \(record.header.sequence) durable \(record.header.durableMark)"
        + " size \(record.header.payloadSize)"
    case .end: "\(record.offset) end durable \(record.header.durableMark)"
    }
  }

  private static func renderEntries(
    _ record: LogReader.Record, name: String, line: (String) -> Void
  ) throws(EngineError) {
    var entries = LogEntryReader(record, file: name)
    while let (sequence, entry) = try entries.next() {
      var text = "  \(sequence) \(entry.kind) family \(entry.family) \(entry.key.printable)"
      if BatchFormat.hasValue(entry.kind) { text += " = \(entry.value.printable)" }
      line(text)
    }
  }
}
