/// What a subscription hears.
public enum ChangeEvent: Sendable {
  /// A commit.
  case changes(ChangeSet)
  /// What was committed after `from` up to `to` is not known any more: because the feed was trimmed before it was
  /// read, nothing was recorded, or the feed is damaged there. Who follows along reads again what it needs, and continues with what comes.
  ///
  /// Where `to` is before `from`, the database does not know the resume point: it was put back by a loss of power or
  /// from a backup, or is another one.
  case gap(from: CommitVersion, to: CommitVersion)

  /// Where a subscription resumes that has dealt with this.
  public var version: CommitVersion {
    switch self {
    case .changes(let changeSet): changeSet.version
    case .gap(_, let to): to
    }
  }

  /// What of it lies after a version; nil where nothing does.
  func part(after version: CommitVersion) -> ChangeEvent? {
    guard self.version > version else { return nil }
    if case .gap(let from, let to) = self { return .gap(from: max(from, version), to: to) }
    return self
  }

  var rowCount: Int {
    switch self {
    case .changes(let changeSet): changeSet.rowCount
    case .gap: 0
    }
  }
}

/// A resume point is kept as its number.
extension CommitVersion: Codable {
  /// Reads the number.
  public init(from decoder: any Decoder) throws {
    self.init(try decoder.singleValueContainer().decode(UInt64.self))
  }

  /// Writes the number.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(number)
  }
}
