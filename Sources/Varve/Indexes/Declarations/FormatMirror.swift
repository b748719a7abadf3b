/// Finds the indexes of a format among its stored properties.
enum FormatMirror {
  static func indexes(of format: some StoreFormat) -> [String: any StoreIndex] {
    var found: [String: any StoreIndex] = [:]
    for child in Mirror(reflecting: format).children {
      guard let label = child.label else { continue }
      if let index = child.value as? any StoreIndex {
        found[label] = index
      } else if let wrapper = child.value as? any DirectIndex {
        // The storage of a wrapped property has the name of the property, with an underscore as a prefix.
        found[label.hasPrefix("_") ? String(label.dropFirst()) : label] = wrapper.index
      }
    }
    return found
  }
}

/// A `Direct` with any index.
private protocol DirectIndex {
  var index: any StoreIndex { get }
}

extension Direct: DirectIndex {
  fileprivate var index: any StoreIndex { wrappedValue }
}
