/// What a definition does with each object around its write.
struct ObjectRules: Sendable {
  /// Gives what is encoded instead of the object; nil: nothing, the row is removed.
  var before: (@Sendable (Any) throws -> Any?)?
  /// Gets what was encoded, after the write.
  var after: (@Sendable (Any) -> Void)?
  /// The types that the rules were written for.
  var types: [any (Codable & Sendable).Type] = []
}

extension CollectionDefinition {
  /// The same, with a rule that every object goes through before it is encoded: it may give another, or nil,
  /// and then the row is removed instead.
  ///
  /// One that throws fails the write, with its own error. `type` is that of the collection's objects, or a class above
  /// or below it; with another, opening a database with it throws `.invalidDefinition`. A second rule replaces
  /// the first.
  public func sanitized<Object: Codable & Sendable>(
    _ type: Object.Type = Object.self, before rule: @escaping @Sendable (Object) throws -> Object?
  ) -> CollectionDefinition {
    var copy = self
    copy.codec.rules.types.append(type)
    copy.codec.rules.before = { any in
      guard let object = any as? Object else { return any }
      return try rule(object)
    }
    return copy
  }

  /// The same, with a closure that gets every object after its write.
  ///
  /// It runs in the transaction, on the writer's thread, before the commit. `type` as above.
  public func sanitized<Object: Codable & Sendable>(
    _ type: Object.Type = Object.self, after body: @escaping @Sendable (Object) -> Void
  ) -> CollectionDefinition {
    var copy = self
    copy.codec.rules.types.append(type)
    copy.codec.rules.after = { any in
      if let object = any as? Object { body(object) }
    }
    return copy
  }

  /// Throws `.invalidDefinition` where no object of the collection is one that a rule is for.
  func checkRules() throws {
    for type in codec.rules.types where !Self.areRelated(type, codec.type) {
      throw DatabaseError(
        .invalidDefinition, "a rule is for objects that are \(type), and they are \(codec.type)", collection: name)
    }
  }

  /// Whether values of one type can be of the other.
  private static func areRelated(_ one: any (Codable & Sendable).Type, _ other: any (Codable & Sendable).Type) -> Bool {
    func isBelow<Above: Codable & Sendable>(_ below: Any.Type, _ above: Above.Type) -> Bool { below is Above.Type }
    return isBelow(one, other) || isBelow(other, one)
  }
}

extension CollectionInfo {
  /// The object as the definition's rule wants it; nil where the row is to be removed.
  func sanitized<Object>(_ object: Object) throws -> Object? {
    guard let rule = definition?.codec.rules.before else { return object }
    guard let result = try rule(object) else { return nil }
    // A rule for a class may give one of that class for one of a class below.
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
