/// The rules of a definition that are applied to each object before and after its write.
struct ObjectRules: Sendable {
  /// Returns the object that is encoded instead of the given one, or `nil` if the row is to be removed.
  var before: (@Sendable (Any) throws -> Any?)?
  /// Receives the encoded object after the write.
  var after: (@Sendable (Any) -> Void)?
  /// The types for which the rules were written.
  var types: [any (Codable & Sendable).Type] = []
}

extension CollectionDefinition {
  /// Returns the definition with a rule that is applied to every object before it is encoded. The rule may return
  /// another object, or nil to remove the row instead.
  ///
  /// If the rule throws, the write fails with that error. `type` must be the type of the collection's objects, or a
  /// superclass or subclass of it; with any other type, opening a database with the definition throws
  /// `.invalidDefinition`. A second rule replaces the first.
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

  /// Returns the definition with a closure that receives every object after its write.
  ///
  /// The closure runs in the transaction, on the writer's thread, before the commit. `type` must be the type of the
  /// collection's objects, or a superclass or subclass of it.
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

  /// Throws `.invalidDefinition` if no object of the collection can have the type of a rule.
  func checkRules() throws {
    for type in codec.rules.types where !Self.areRelated(type, codec.type) {
      throw DatabaseError(
        .invalidDefinition, "a rule is for objects that are \(type), and they are \(codec.type)", collection: name)
    }
  }

  /// Returns whether values of one type can be of the other.
  private static func areRelated(_ one: any (Codable & Sendable).Type, _ other: any (Codable & Sendable).Type) -> Bool {
    func isBelow<Above: Codable & Sendable>(_ below: Any.Type, _ above: Above.Type) -> Bool { below is Above.Type }
    return isBelow(one, other) || isBelow(other, one)
  }
}

extension CollectionInfo {
  /// Returns the object that the definition's rule returns, or `nil` if the row is to be removed.
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
