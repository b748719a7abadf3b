internal import Synchronization

/// Who is told of each acknowledged commit.
final class ChangeHub: Sendable {
  func deliver(_ changeSet: ChangeSet) {}
  func close() {}
}
