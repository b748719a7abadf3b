/// Keeps what a user interface shows at one commit: its members change together, in one turn of the main actor.
///
/// ```swift
/// let scope = LiveScope(database)
/// let books = LiveQuery(store.query.sorted(by: \.title).limit(50), in: scope)
/// let author = LiveItem(id, of: authors, in: scope)
/// ```
///
/// When a commit changes what one of the members has read, all of them are read again in one transaction, on a thread that
/// neither commits nor is the main one, and then set. Commits meanwhile become one more turn. A scope lives as long as
/// it or one of its members is referred to.
@MainActor
public final class LiveScope {
  private let database: Database
  private var members: [ObjectIdentifier: WeakMember] = [:]
  private var task: Task<Void, Never>?

  private struct WeakMember {
    weak var member: (any LiveMember)?
  }

  /// A scope of a database.
  public init(_ database: Database) { self.database = database }

  deinit { task?.cancel() }

  /// Adds a member, whose first value comes with the next turn.
  func add(_ member: any LiveMember) {
    members[ObjectIdentifier(member)] = WeakMember(member: member)
    begin()
  }

  /// Observes what all members read; begun again when members come and go.
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
        // Errors of the members' own reads are among their values.
        self?.fail(error)
      }
    }
  }

  private func fail(_ error: any Error) {
    if error is CancellationError { return }
    for member in members.values { member.member?.fail(error) }
  }
}

/// What a member of a scope has read.
struct LiveValue: Sendable {
  /// Sets it.
  let apply: @MainActor @Sendable () -> Void
}

/// What a scope keeps at its commit.
@MainActor
protocol LiveMember: AnyObject, Sendable {
  /// Reads what it shows.
  var read: @Sendable (ReadTransaction) -> LiveValue { get }
  func fail(_ error: any Error)
}
