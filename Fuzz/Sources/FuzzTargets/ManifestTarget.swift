@testable import VarveEngine

/// The target for a MANIFEST file with the number 5.
enum ManifestTarget {
  static let number = FileNumber(5)

  static func read(_ input: ByteView) throws {
    let text = ManifestDump.text(input, number: number, file: "MANIFEST-000005")
    try require(!text.isEmpty, "a dump without a line")
    var reader = try ManifestReader(input, number: number, file: "MANIFEST-000005")
    var state: ManifestState?
    while let record = try reader.next() {
      try VersionEditTarget.rewrite(record.edit)
      if state == nil {
        state = try ManifestState(snapshot: record.edit, file: "MANIFEST-000005", offset: record.offset)
      } else {
        try state?.apply(record.edit)
      }
    }
    try require(reader.ending != nil, "the MANIFEST was read to no end")
    if let state { try VersionEditTarget.rewrite(state) }
  }
}

/// The target for the payload of a MANIFEST record.
enum VersionEditTarget {
  static func read(_ input: ByteView) throws {
    let edit = try VersionEdit(decoding: input, file: "MANIFEST")
    try rewrite(edit)
    try rewrite(try ManifestState(snapshot: edit))
  }

  /// Checks that an edit, written again, is read as the same edit.
  static func rewrite(_ edit: VersionEdit) throws {
    var writer = ByteWriter()
    edit.encode(appendingTo: &writer)
    let copy = try again { () throws(EngineError) in try VersionEdit(decoding: writer.view) }
    try require(copy == edit, "the edit changed: \(ManifestDump.lines(edit)) to \(ManifestDump.lines(copy))")
  }

  /// Checks that a state, written as a snapshot, is read as the same state.
  static func rewrite(_ state: ManifestState) throws {
    let snapshot = state.snapshotEdit()
    try rewrite(snapshot)
    let copy = try again { () throws(EngineError) in try ManifestState(snapshot: snapshot) }
    try require(
      copy.snapshotEdit() == snapshot,
      "the state changed: \(ManifestDump.lines(snapshot)) to \(ManifestDump.lines(copy.snapshotEdit()))")
  }
}
