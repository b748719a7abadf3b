public enum ChangeEvent: Sendable { 
  /// x
  case changes(ChangeSet), gap(from: CommitVersion, to: CommitVersion) }
extension DatabaseCore { func feedEvents(after: CommitVersion, through: CommitVersion) throws -> [ChangeEvent] { [] } }
extension ChangeSet { var rowCount: Int { allKeys.count } }
