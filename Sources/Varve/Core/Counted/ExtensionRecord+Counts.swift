extension ExtensionRecord {
  /// The parts that the definition has declared, without those that have the counts of others.
  package var contentParts: [Part] { parts.filter { !isCompanion($0) } }

  /// Returns the part that has the counts of a part, or `nil` if it is not counted.
  package func runs(of part: Part) -> Part? { parts.first { $0.name == RunFormat.partName(of: part.name) } }

  /// Returns whether the entries of a part are counted.
  package func isCounted(_ part: Part) -> Bool { runs(of: part) != nil }
}
