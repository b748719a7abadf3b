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
    copy.rows.codec.rules.types.append(type)
    copy.rows.codec.rules.before = { any in
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
    copy.rows.codec.rules.types.append(type)
    copy.rows.codec.rules.after = { any in
      if let object = any as? Object { body(object) }
    }
    return copy
  }

  /// Throws `.invalidDefinition` if no object of the collection can have the type of a rule.
  func checkRules() throws {
    for type in rows.codec.rules.types where !Self.areRelated(type, rows.codec.type) {
      throw DatabaseError(
        .invalidDefinition, "a rule is for objects that are \(type), and they are \(rows.codec.type)", collection: name)
    }
  }

  /// Returns whether values of one type can be of the other.
  private static func areRelated(_ one: any (Codable & Sendable).Type, _ other: any (Codable & Sendable).Type) -> Bool {
    func isBelow<Above: Codable & Sendable>(_ below: Any.Type, _ above: Above.Type) -> Bool { below is Above.Type }
    return isBelow(one, other) || isBelow(other, one)
  }
}
