extension DatabaseCore {
  /// Empties some parts of an extension, by their indexes, and builds them again in the background. `body` runs in the
  /// same transaction.
  ///
  /// Throws `.unknownExtension`, `.notReady` if the extension is not in use at all, and `.invalidArgument` inside a
  /// transaction.
  func rebuild(_ parts: [Int], of name: String, _ body: (WriteTransaction) throws -> Void) throws {
    try requireNoTransaction("parts of extension \"\(name)\" are built again")
    try requireWritable()
    try enter()
    defer { leave() }
    let registered = try write(WriteTerms(label: "rebuild \(name)", waitsForWriter: true)) { transaction in
      guard let registered = extensions.list[name] else {
        throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
      }
      var record = registered.record
      switch record.state {
      case .ready, .building: break
      case .stale, .ingesting, .failed: throw registered.notReadyError
      }
      let parts = registered.traits.withCompanions(parts)
      // The families stay empty until the build drops them. A damaged table is dropped with its family, so that no
      // later build encounters it.
      try transaction.empty(parts, of: registered)
      for part in parts { record.parts[part].watermark = [] }
      record.settle()
      try body(transaction)
      transaction.forgetReach(of: registered)
      registered.set(BuildProgress(rowsDone: 0, rowsTotal: 0))
      try registered.save(record, transaction)
      transaction.onApplied { _ in registered.forgetFamilies(of: parts) }
      return registered
    }
    ExtensionBuild(self, registered).start()
  }
}
