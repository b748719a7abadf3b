/// Keeps the values that a user interface shows at one commit: its members change together, in one turn of the main
/// actor.
///
/// ```swift
/// let scope = LiveScope(database)
/// let books = LiveQuery(store.query.sorted(by: \.title).limit(50), in: scope)
/// let author = LiveItem(id, of: authors, in: scope)
/// ```
///
/// When a commit changes something that one of the members has read, all of them are read again in one transaction, on
/// a thread that neither commits nor is the main thread, and then updated. Commits that happen meanwhile lead to one
/// more update. A scope lives as long as it or one of its members is referenced.
@MainActor
public final class LiveScope {
  private let database: Database
  private var members: [ObjectIdentifier: WeakMember] = [:]
  private var task: Task<Void, Never>?

  private struct WeakMember {
    weak var member: (any LiveMember)?
  }

  /// Creates a scope of a database.
  public init(_ database: Database) { self.database = database }

  deinit { task?.cancel() }

  /// Adds a member, which receives its first value with the next update.
  func add(_ member: any LiveMember) {
    members[ObjectIdentifier(member)] = WeakMember(member: member)
    begin()
  }

  /// Observes the reads of all members. This starts again when members are added or released.
  private func begin() {
    task?.cancel()
    task = nil
    members = members.filter { $0.value.member != nil }
    if members.isEmpty { return }
    let reads = members.values.compactMap { $0.member?.read }
    let observation = ReadObservation<[LiveValue]>(database.core, isSame: { _, _ in false }) { tx in
      reads.map { $0(tx) }
    }
    task = Task { [weak self] in
      do {
        for try await values in observation {
          guard let self, !Task.isCancelled else { return }
          for value in values { value.apply() }
          if self.members.values.contains(where: { $0.member == nil }) { return self.begin() }
        }
      } catch {
        // Errors of the members' own reads are part of their values.
        self?.fail(error)
      }
    }
  }

  private func fail(_ error: any Error) {
    if error is CancellationError { return }
    for member in members.values { member.member?.fail(error) }
  }
}

/// The value that a member of a scope has read.
struct LiveValue: Sendable {
  /// Sets the value of the member.
  let apply: @MainActor @Sendable () -> Void
}

/// An object whose value a scope keeps at its commit.
@MainActor
protocol LiveMember: AnyObject, Sendable {
  /// Reads the value of the member.
  var read: @Sendable (ReadTransaction) -> LiveValue { get }
  func fail(_ error: any Error)
}
