extension CountedPlan {
  /// Returns the error of a query that no counted index answers: `.notIndexed` with the declaration that is missing, or
  /// with the reason why no index could answer. `section` is the field of a sectioned query.
  func refusal(of section: FieldPath?) -> DatabaseError {
    let text = refusalText(section)
    let asked = section == nil ? "offsets" : "sections"
    return DatabaseError(
      .notIndexed, "no counted index of \(Format.self) has the \(asked) of the query; \(text)",
      collection: query.store.collection)
  }

  private typealias Part = (path: FieldPath, isDescending: Bool)

  private func refusalText(_ section: FieldPath?) -> String {
    guard branches.count == 1, let branch = branches.first else {
      return "its condition has \(branches.count) alternatives, and only one range of an index has offsets"
    }
    let order = query.order
    if let other = branch.others.first {
      if section == nil, branch.others.count == 1, branch.sets.isEmpty,
        Self.isElement(other.term, isNegated: other.isNegated),
        order.allSatisfy({ Format.isIdentifier($0.path) })
      {
        return declare([(other.term.path, false)], ofElements: true)
      }
      return "the condition on \(other.term.path.text) is not a range of values"
    }
    // The fields of which the condition names one value come first, then that of the sections, then the order.
    var parts: [Part] = []
    var restricted: [(path: FieldPath, set: KeySet)] = []
    for (path, found) in branch.sets {
      let set = found.withoutKeysBeforeNil
      if set.hasUnkeyed, path.mayBeUnkeyed {
        return "the condition on \(path.text) accepts values without a key, as NaN, which no index has: "
          + "compare it by `==`, `<`, `<=`, `>` or `>=`"
      }
      if path != section, set.ranges.count == 1, set.ranges[0].isPoint {
        parts.append((path, false))
        continue
      }
      if path != section, set.ranges.count != 1 {
        return "the condition on \(path.text) has \(set.ranges.count) ranges of values"
      }
      restricted.append((path, set))
    }
    let equal = parts.map(\.path)
    var sorted = order.filter { !equal.contains($0.path) && $0.path != section }
    // Rows with the same values are in the order of their identifiers in any case.
    if let last = sorted.last, sorted.count > 1 || section != nil || !parts.isEmpty, Format.isIdentifier(last.path),
      sorted.allSatisfy({ $0.isDescending == last.isDescending })
    {
      sorted.removeLast()
    }
    for (position, field) in sorted.enumerated() where sorted[..<position].contains(where: { $0.path == field.path }) {
      return "it is sorted by \(field.path.text) more than once: sort it by that field once"
    }
    if let section { parts.append((section, false)) }
    let isTieDescending = order.last?.isDescending ?? false
    if let text = obstacle(restricted, sorted, section, isTieDescending) { return text }
    parts += sorted.map { ($0.path, $0.isDescending != isTieDescending) }
    if sorted.isEmpty, let range = restricted.first, range.path != section { parts.append((range.path, false)) }
    if !parts.isEmpty { return besideSkips(section, declare(parts)) }
    return Format.isIdentifiedByID
      ? besideSkips(nil, "if `id` is a stored property, declare `Index(\\.id, counted: true)`")
      : "it has no order but that of the identifiers: sort it by a field"
  }

  /// Returns why no index has the ranges of a condition in the order of the query, or nil if one may have them.
  private func obstacle(
    _ restricted: [(path: FieldPath, set: KeySet)], _ sorted: [QueryOrder<Format.Instance>], _ section: FieldPath?,
    _ isTieDescending: Bool
  ) -> String? {
    if let section {
      return restricted.first { $0.path != section }.map {
        "the condition on \($0.path.text) is a range, and only that of the sections may be one"
      }
    }
    guard let range = restricted.first else { return nil }
    guard restricted.count == 1 else {
      let names = restricted.map(\.path.text).joined(separator: " and ")
      return "the conditions on \(names) are ranges, and only one may be one"
    }
    guard let first = sorted.first else {
      // Without an order, or with that of the identifiers, a range of identifiers is in order.
      return Format.isIdentifier(range.path) ? nil : sortFirst(range.path)
    }
    if first.path != range.path { return sortFirst(range.path) }
    if first.isDescending != isTieDescending, range.set.descending == nil {
      return "the condition on \(range.path.text) is a range in ascending order alone: "
        + "sort the other fields in the same direction"
    }
    return nil
  }

  /// Returns whether instances fulfil a term that have a certain value among the elements of the field.
  private static func isElement(_ term: ConditionTerm<Format.Instance>, isNegated: Bool) -> Bool {
    guard !isNegated, case .element = term.comparison, let keys = term.keys else { return false }
    return keys.ranges.count == 1 && keys.ranges[0].isPoint
  }

  private func sortFirst(_ path: FieldPath) -> String {
    "it restricts \(path.text) to a range, so sort it by that field first"
  }

  /// Returns a text that asks for an index, after the name of one that would do if it had all rows.
  private func besideSkips(_ section: FieldPath?, _ text: String) -> String {
    guard let name = try? indexWithSkips(section) else { return text }
    return "index \"\(name)\" may leave out rows, as it has `skipsInvalid`: \(text), without `skipsInvalid`"
  }

  /// Returns the text that asks for an index of some fields, or of the elements of one.
  private func declare(_ parts: [Part], ofElements: Bool = false) -> String {
    let kind = ofElements ? "ManyToManyIndex" : "Index"
    let names = parts.map(\.path.spelling)
    if ofElements, parts[0].path.isOptionalChain {
      return "the condition on \(parts[0].path.text) leads through an optional property: compare a property of the "
        + "instance, and declare a `ManyToManyIndex` of it with `version: 1, counted: true`"
    }
    guard names.allSatisfy({ $0 != nil }) else {
      let fields = parts.map { $0.path.text + ($0.isDescending ? " descending" : "") }.joined(separator: ", ")
      return "declare \(ofElements ? "a" : "an") `\(kind)` of \(fields) with `version: 1, counted: true`"
    }
    let isPlain = ofElements || !parts.contains { $0.isDescending || $0.path.isChained }
    let fields = zip(names, parts).map { name, part in
      isPlain ? "\\.\(name ?? "")" : "{ $0.\(name ?? "")\(part.isDescending ? ".descending" : "") }"
    }.joined(separator: ", ")
    return isPlain ? "declare `\(kind)(\(fields), counted: true)`" : "declare `\(kind)(counted: true, \(fields))`"
  }
}

extension FieldPath {
  /// Whether some values of the field may have no key, as the NaN of a double.
  fileprivate var mayBeUnkeyed: Bool {
    let key = type(of: path).valueType as? any KeyCodable.Type
    return key.map { !$0.keyType.hasKeyForEachValue } ?? false
  }

  /// Whether the path leads through an optional property, so that no key path literal equals it.
  fileprivate var isOptionalChain: Bool {
    zip(components, components.dropFirst()).contains { type(of: $0).valueType != type(of: $1).rootType }
  }

  /// Whether a key path literal is another path, as for the fields of fields and for folded texts.
  fileprivate var isChained: Bool {
    if components.count > 1 { return true }
    if case .chained = name { return true }
    return false
  }

  /// The path as a program writes it after `$0.`, or nil if it has no name.
  fileprivate var spelling: String? {
    if isFolded {
      let components = Array(components.dropLast())
      guard let inner = components.last else { return nil }
      return FieldPath(path: inner, components: components).spelling.map { "\($0).folded" }
    }
    switch name {
    case .stored(let name): return name
    case .chained(let name): return name.filter { $0 != "?" && $0 != "!" }
    case .computed: return nil
    }
  }
}
