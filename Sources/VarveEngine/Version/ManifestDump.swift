/// Formats VersionEdits and MANIFEST files as text, for `varve dump manifest`, error reports and tests: one line per
/// field, in the order in which an edit is encoded, with escaped keys.
enum ManifestDump {
  /// Returns the lines of one edit, one for each field.
  static func lines(_ edit: VersionEdit) -> [String] {
    var lines: [String] = []
    if let id = edit.databaseID { lines.append("database id \(hex(id))") }
    if let incarnation = edit.incarnation { lines.append("incarnation \(hex(incarnation))") }
    if let version = edit.formatVersion { lines.append("format version \(version)") }
    if let features = edit.requiredFeatures { lines.append("required features \(hex(features))") }
    if let number = edit.nextFileNumber { lines.append("next file number \(number)") }
    if let sequence = edit.lastSequence { lines.append("last sequence \(sequence)") }
    if let id = edit.nextFamilyID { lines.append("next family id \(id)") }
    for created in edit.createdFamilies {
      let kind = FamilyFlags(options: created.options).contains(.volatile) ? "volatile family" : "family"
      lines.append("create \(kind) \(created.family) \"\(created.name)\" options \(hex(created.options))")
    }
    for changed in edit.changedOptions {
      lines.append("change options of family \(changed.family) to \(hex(changed.options))")
    }
    for deleted in edit.deletedTables {
      lines.append("delete table \(deleted.number) from family \(deleted.family) level \(deleted.level)")
    }
    for added in edit.addedTables {
      lines.append("add table to family \(added.family) level \(added.level): \(table(added.table))")
    }
    for flushed in edit.flushedSequences {
      lines.append("family \(flushed.family) is flushed up to sequence \(flushed.sequence)")
    }
    for dropped in edit.droppedFamilies { lines.append("drop family \(dropped)") }
    if let log = edit.oldestLog { lines.append("oldest log segment \(log)") }
    for cut in edit.logCuts {
      lines.append("log segment \(cut.segment) of life \(hex(cut.lifeID)) ends at byte \(cut.endOffset)")
    }
    for log in edit.droppedLogs { lines.append("drop log segment \(log)") }
    for log in edit.pooledLogs { lines.append("pool log segment \(log)") }
    return lines
  }

  /// Returns the text of a table, such as `12 [a, f] 1..9, 4096 bytes, 100 entries`: number, bounds (a round bracket
  /// means that the bound is excluded), sequences.
  static func table(_ table: TableMetadata) -> String {
    var text = "\(table.number) [\(key(table.smallest)), \(key(table.largest))\(table.largestIsExcluded ? ")" : "]")"
    text += " sequences \(table.smallestSequence)..\(table.largestSequence)"
    text += ", \(table.fileSize) bytes, \(table.entryCount) entries"
    if table.tombstoneCount > 0 { text += ", \(table.tombstoneCount) tombstones" }
    if table.rangeTombstoneCount > 0 { text += ", \(table.rangeTombstoneCount) range tombstones" }
    for group in table.hidden.groups {
      text += ", \(group.count) hidden entries of \(group.size) bytes, free at \(group.sequence)"
    }
    if let size = table.shadowedSize { text += ", \(size) shadowed bytes" }
    text += ", \(table.rawSize) raw bytes, id \(hex(table.tableID))"
    return text
  }

  /// Returns the text of a whole MANIFEST. If a part is damaged, the dump continues as far as possible, and the error
  /// is the last line.
  static func text(_ bytes: ByteView, number: FileNumber, file: String) -> String {
    var lines: [String] = []
    do throws(EngineError) {
      var reader = try ManifestReader(bytes, number: number, file: file)
      lines.append("MANIFEST \(reader.header.number), database \(hex(reader.header.databaseID))")
      while let record = try reader.next() {
        lines.append("\(record.kind) at byte \(record.offset), \(record.size) bytes")
        lines += Self.lines(record.edit).map { "  " + $0 }
      }
      switch reader.ending {
      case .marked(let offset): lines.append("end at byte \(offset), marked: all before it is synced")
      case .torn(let offset):
        let rest = UInt64(bytes.count) - offset
        lines.append("end at byte \(offset), without a mark" + (rest > 0 ? "; \(rest) bytes of a torn tail" : ""))
      case nil: break
      }
    } catch {
      lines.append("error: \(error)")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// Returns a key as text: printable ASCII is unchanged, other bytes are `\xNN`.
  static func key(_ bytes: ByteView) -> String {
    var text = ""
    for index in 0..<bytes.count {
      let byte = bytes[index]
      if byte >= 0x21, byte < 0x7f, byte != 0x5c {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += "\\x" + hexDigits(UInt64(byte), 2)
      }
    }
    return text.isEmpty ? "''" : text
  }

  private static func hex(_ value: UInt64) -> String { hexDigits(value, 16) }

  private static func hex(_ bytes: [UInt8]) -> String {
    bytes.isEmpty ? "none" : bytes.map { hexDigits(UInt64($0), 2) }.joined()
  }

  private static func hexDigits(_ value: UInt64, _ count: Int) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
  }
}
