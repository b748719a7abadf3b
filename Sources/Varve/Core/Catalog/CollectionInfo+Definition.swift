/// The versions and the rules of a collection's definition.
extension CollectionInfo {
  /// Whether the definition has versions without a number.
  var lacksVersions: Bool {
    let numbered = Set(versions.names.values)
    return definition?.codec.versions.contains { !numbered.contains($0) } ?? false
  }

  /// Returns the raw value of the version that wrote a row, or `nil` if no versioned format wrote it.
  ///
  /// Throws `.unsupportedVersion` if the definition does not know the version, because a newer program has written the
  /// row.
  func versionName(_ number: UInt32) throws -> String? {
    if number == 0 { return nil }
    guard let name = versions.names[number] else {
      throw DatabaseError(.unsupportedVersion, "the row has version \(number), which the catalog does not name")
    }
    guard let known = definition?.codec.versions, !known.contains(name) else { return name }
    throw DatabaseError(.unsupportedVersion, Self.unknownVersion(name, known: known))
  }

  /// Throws `.unsupportedVersion` if a row of a version must not be replaced, because the program does not know it.
  func requireKnownVersion(_ number: UInt32) throws {
    guard let name = try versionName(number), definition == nil else { return }
    throw DatabaseError(
      .unsupportedVersion,
      "the row has version \"\(name)\", and the program has not defined the collection, so that it knows no version; open the database with the format of the collection"
    )
  }

  static func unknownVersion(_ name: String, known: [String]) -> String {
    let what = known.isEmpty ? "no versions" : known.map { "\"\($0)\"" }.joined(separator: ", ")
    return "the row has version \"\(name)\", which the program does not know: it knows \(what)"
  }

  /// Returns the object that the definition's rule returns, or `nil` if the row must be removed.
  func sanitized<Object>(_ object: Object) throws -> Object? {
    guard let rule = definition?.codec.rules.before else { return object }
    guard let result = try rule(object) else { return nil }
    // A rule for a class may return an object of that class for one of a subclass.
    guard let result = result as? Object else {
      throw DatabaseError(
        .encodingFailed, "the rule gives \(Swift.type(of: result)) for \(Object.self)", collection: name)
    }
    return result
  }

  @inline(__always)
  func didSet<Object>(_ object: Object) {
    if reading.reports { definition?.codec.rules.after?(object) }
  }
}
