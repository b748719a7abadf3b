/// The independent parts of extensions in one independent commit: see
/// `Database.commitIndependently(label:durability:_:)`.
///
/// It belongs to the closure that receives it, and to the thread that runs the closure.
public final class IndependentParts {
  let transaction: WriteTransaction
  private var opened: [OpenExtension] = []

  init(_ transaction: WriteTransaction) { self.transaction = transaction }

  /// Returns an independent part of a registered extension.
  ///
  /// Throws `.unknownExtension`, `.notReady` while the extension is being built, and `.invalidArgument` for a part that
  /// is not independent.
  public func part<Definition: DatabaseExtension>(
    _ name: String, of handle: ExtensionHandle<Definition>
  ) throws -> Part {
    try transaction.check()
    if let open = opened.first(where: { $0.name == handle.name }) { return try part(name, open) }
    guard let registered = transaction.registered[handle.name] else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(handle.name)\"")
    }
    guard registered.record.state == .ready else { throw registered.notReadyError }
    let open = OpenExtension(registered, transaction, nil)
    // The parts end with the transaction. The extension itself has no transaction object here.
    transaction.everOpened.append(open)
    opened.append(open)
    return try part(name, open)
  }

  private func part(_ name: String, _ open: OpenExtension) throws -> Part {
    let part = try open.part(name)
    guard part.isIndependent else {
      throw DatabaseError(
        .invalidArgument,
        "part \"\(name)\" of extension \"\(open.name)\" is not independent, and is read and written by transactions alone"
      )
    }
    return part
  }

  /// Runs `body`; if it throws, only the changes that it made are undone.
  @discardableResult
  public func savepoint<Result>(_ body: () throws -> Result) throws -> Result { try transaction.savepoint(body) }

  /// Whether every extension that was used is still registered and built. Must be called with the commit lock held.
  var isCurrent: Bool {
    let list = transaction.database.extensions.list
    return opened.allSatisfy { list[$0.name] === $0.registered && $0.registered.record.state == .ready }
  }
}

@available(*, unavailable)
extension IndependentParts: Sendable {}
