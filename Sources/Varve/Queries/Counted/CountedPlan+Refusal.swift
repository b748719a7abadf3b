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
      if section == nil, branch.others.count == 1, branch.sets.isEmpty, !other.isNegated,
        case .element = other.term.comparison, order.allSatisfy({ Format.isIdentifier($0.path) })
      {
        return declare("ManyToManyIndex", [(other.term.path, false)])
      }
      return "the condition on \(other.term.path.text) is not a range of values"
    }
    // The fields of which the condition names one value come first, then that of the sections, then the order.
    var parts: [Part] = []
    var restricted: [FieldPath] = []
    for (path, found) in branch.sets {
      let set = found.withoutKeysBeforeNil
      if path != section, set.ranges.count == 1, set.ranges[0].isPoint, !set.hasUnkeyed {
        parts.append((path, false))
        continue
      }
      if path != section, set.ranges.count != 1 {
        return "the condition on \(path.text) has \(set.ranges.count) ranges of values"
      }
      restricted.append(path)
    }
    let equal = parts.map(\.path)
    var sorted = order.filter { !equal.contains($0.path) && $0.path != section }
    // Rows with the same values are in the order of their identifiers in any case.
    if let last = sorted.last, sorted.count > 1 || section != nil || !parts.isEmpty, Format.isIdentifier(last.path),
      sorted.allSatisfy({ $0.isDescending == last.isDescending })
    {
      sorted.removeLast()
    }
    if let section { parts.append((section, false)) }
    if let other = restricted.first(where: { $0 != (section ?? sorted.first?.path) }) {
      if section != nil { return "the condition on \(other.text) is a range, and only that of the sections may be one" }
      return "it restricts \(other.text) to a range, so sort it by that field first"
    }
    let isTieDescending = order.last?.isDescending ?? false
    parts += sorted.map { ($0.path, $0.isDescending != isTieDescending) }
    if parts.isEmpty {
      return "it has no order but that of the identifiers: sort it by a field, or ask the store for its instances"
    }
    return declare("Index", parts)
  }

  /// Returns the text that asks for an index of some fields.
  private func declare(_ kind: String, _ parts: [Part]) -> String {
    let names = parts.map(\.path.spelling)
    guard names.allSatisfy({ $0 != nil }) else {
      let fields = parts.map { $0.path.text + ($0.isDescending ? " descending" : "") }.joined(separator: ", ")
      return "declare an index of \(fields) with `version: 1, counted: true`"
    }
    let isPlain = !parts.contains { $0.isDescending || $0.path.isChained }
    let fields = zip(names, parts).map { name, part in
      isPlain ? "\\.\(name ?? "")" : "{ $0.\(name ?? "")\(part.isDescending ? ".descending" : "") }"
    }.joined(separator: ", ")
    return isPlain ? "declare `\(kind)(\(fields), counted: true)`" : "declare `\(kind)(counted: true, \(fields))`"
  }
}

extension FieldPath {
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
