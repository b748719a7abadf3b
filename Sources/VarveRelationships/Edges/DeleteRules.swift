/// The rules that are applied when an end of an edge is removed. Rules can be combined.
///
/// An edge has a direction, and its rules act in both. They are those of YapDatabase's relationships, with the same
/// bits.
///
/// | Removed end | Effect on the other end |
/// |---|---|
/// | source | `.deleteDestinationIfSourceDeleted`, `.deleteDestinationIfAllSourcesDeleted`, `.notifyIfSourceDeleted` |
/// | destination | `.deleteSourceIfDestinationDeleted`, `.deleteSourceIfAllDestinationsDeleted`, `.notifyIfDestinationDeleted` |
///
/// Without rules, only the edge is removed. Two rules that delete the same end on the same occasion contradict each
/// other: one of them would never have an effect, so an edge with both is refused.
public struct DeleteRules: OptionSet, Hashable, Sendable, Codable {
  /// The bits of the rules, which are stored on disk and must never change.
  public let rawValue: UInt8
  /// Creates rules from their bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The destination receives `edgeRemoved` when the source is removed.
  public static let notifyIfSourceDeleted = DeleteRules(rawValue: 1)
  /// The source receives `edgeRemoved` when the destination is removed.
  public static let notifyIfDestinationDeleted = DeleteRules(rawValue: 2)
  /// The source is removed when the destination is.
  public static let deleteSourceIfDestinationDeleted = DeleteRules(rawValue: 4)
  /// The destination, a row or a file, is removed when the source is.
  public static let deleteDestinationIfSourceDeleted = DeleteRules(rawValue: 8)
  /// The source is removed when the last destination of its edges is.
  public static let deleteSourceIfAllDestinationsDeleted = DeleteRules(rawValue: 16)
  /// The destination, a row or a file, is removed when the last source of its edges is.
  public static let deleteDestinationIfAllSourcesDeleted = DeleteRules(rawValue: 32)

  /// All defined rules.
  static let all = DeleteRules(rawValue: 63)

  /// Returns the reason why an edge cannot have these rules, or nil if it can.
  func refusal(toFile: Bool) -> String? {
    if !Self.all.isSuperset(of: self) {
      return "has rules of bits \(rawValue); \(Self.all.rawValue) has all that there are"
    }
    if isSuperset(of: [.deleteSourceIfDestinationDeleted, .deleteSourceIfAllDestinationsDeleted]) {
      return "has rules to delete its source if a destination is deleted and only if all are; one is possible"
    }
    if isSuperset(of: [.deleteDestinationIfSourceDeleted, .deleteDestinationIfAllSourcesDeleted]) {
      return "has rules to delete its destination if a source is deleted and only if all are; one is possible"
    }
    let ofRows: DeleteRules = [
      .notifyIfSourceDeleted, .notifyIfDestinationDeleted, .deleteSourceIfDestinationDeleted,
      .deleteSourceIfAllDestinationsDeleted,
    ]
    if toFile, !isDisjoint(with: ofRows) {
      return "leads to a file, which can't be notified, and whose removal by others is not noticed; "
        + "only rules that delete the destination have a meaning for it"
    }
    return nil
  }
}
