/// An event that a subscription receives.
public enum ChangeEvent: Sendable {
  /// A commit.
  case changes(ChangeSet)
  /// The commits after `from` up to `to` are not known any more: the feed was trimmed before it was read, nothing was
  /// recorded, or the feed is damaged there. A consumer that maintains derived data reads again what it needs, and
  /// continues with the events that follow.
  ///
  /// If `to` is before `from`, the database does not know the resume point: it was set back by a loss of power or a
  /// restored backup, or is another database.
  case gap(from: CommitVersion, to: CommitVersion)

  /// The version from which a subscription resumes once this event is processed.
  public var version: CommitVersion {
    switch self {
    case .changes(let changeSet): changeSet.version
    case .gap(_, let to): to
    }
  }

  /// Returns the part of the event after a version, or `nil` if there is none.
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

/// A version is encoded as its number, so that a resume point can be stored.
extension CommitVersion: Codable {
  /// Decodes a version from its number.
  public init(from decoder: any Decoder) throws {
    self.init(try decoder.singleValueContainer().decode(UInt64.self))
  }

  /// Encodes the version as its number.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(number)
  }
}
