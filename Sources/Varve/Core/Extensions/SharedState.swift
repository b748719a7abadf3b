internal import FutexLocks
internal import Synchronization

/// The state that the transactions of an extension share, and the commit as of which it is.
final class SharedState: Sendable {
  private struct State {
    /// The definition in force.
    var definition: any DatabaseExtension
    var value: (any Sendable)?
    var version = CommitVersion.zero
  }

  private let state: FutexLock<State>
  /// Held while the state moves, because an acknowledged commit and a skip to a later one may happen at the same time.
  private let moving = Mutex(())

  /// Creates the state. Returns `nil` if the extension shares nothing.
  init?(_ definition: any DatabaseExtension) {
    guard definition.sharesState else { return nil }
    state = FutexLock(State(definition: definition))
  }

  var value: (any Sendable)? { state.withLock { $0.value } }
  /// The last commit that the state has received.
  var version: CommitVersion { state.withLock { $0.version } }

  private var definition: any DatabaseExtension { state.withLock { $0.definition } }

  private func set(_ value: (any Sendable)?, _ version: CommitVersion) {
    state.withLock { state in
      state.value = value
      state.version = version
    }
  }

  /// Puts another definition in force, and moves the state to that definition's parts. If the definition can't move the
  /// state, it is made again; if that fails too, there is none, and the extension throws `.notReady`.
  func replace(_ definition: any DatabaseExtension, _ view: borrowing SharedView) {
    moving.withLock { _ in
      state.withLock { $0.definition = definition }
      do { return try move(to: view) } catch { set(nil, view.version) }
      try? move(to: view)
    }
  }

  /// Makes the state, or moves it to a commit whose deltas it has not received. The caller ensures that no commit is
  /// made meanwhile.
  func skip(to view: borrowing SharedView) throws { try moving.withLock { _ in try move(to: view) } }

  private func move(to view: borrowing SharedView) throws {
    if let value {
      try definition.skipShared(to: view, value)
      set(value, view.version)
    } else {
      set(try definition.madeShared(view), view.version)
    }
  }

  /// Moves the state in a process that does not write, unless it is as of the view's commit already.
  func follow(_ view: borrowing SharedView) throws {
    try moving.withLock { _ in
      if value == nil || version < view.version { try move(to: view) }
    }
  }

  /// Applies an acknowledged commit.
  func acknowledge(_ commit: CommitVersion, _ delta: (any Sendable)?) {
    moving.withLock { _ in
      guard let value, version < commit else { return }
      definition.acknowledgeShared(commit, delta, value)
      set(value, commit)
    }
  }
}

/// The error of a shared state that could not follow a commit which changed its extension's content.
struct SharedStateFailure: Error {
  let cause: any Error

  /// A holder for the error in a closure that can't throw.
  final class Box {
    var error: (any Error)?
  }
}

/// A view of an extension's parts as of one commit.
public struct SharedView: ~Copyable {
  private let open: OpenExtension
  /// The commit as of which the parts are viewed.
  public let version: CommitVersion

  init(_ registered: RegisteredExtension, _ transaction: ReadTransaction, _ content: ExtensionContent?) {
    open = OpenExtension(registered, transaction, content)
    version = transaction.version
  }

  /// Returns a part. Throws `.invalidArgument` for a name that the configuration does not have.
  public func part(_ name: String) throws -> Part { try open.part(name) }

  /// The name under which the extension is registered.
  public var name: String { open.name }

  /// A number that distinguishes the database from its copies: `Database.incarnation`.
  public var incarnation: UInt64 { core?.backend.incarnation ?? 0 }

  /// The core of the open database.
  var core: DatabaseCore? { open.reader?.database }
}

extension DatabaseExtension {
  var sharesState: Bool { Shared.self != Void.self }

  fileprivate func madeShared(_ view: borrowing SharedView) throws -> any Sendable { try makeShared(view) }

  fileprivate func skipShared(to view: borrowing SharedView, _ shared: any Sendable) throws {
    if let shared = shared as? Shared { try didSkip(to: view, shared) }
  }

  fileprivate func acknowledgeShared(_ version: CommitVersion, _ delta: (any Sendable)?, _ shared: any Sendable) {
    if let shared = shared as? Shared { didAcknowledge(version, delta as? Delta, shared) }
  }
}
