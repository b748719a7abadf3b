/// The programs' own coders that a database knows: those of its catalog by number, and those of the program by name.
package struct CoderTable: Sendable {
  /// The lowest number of a program's own coder. Varve's own coders have lower numbers.
  package static let firstNumber: UInt8 = 16
  /// The maximum size of a stored name, in bytes.
  static let nameSizeMaximum = 255

  private(set) var names: [UInt8: String] = [:]
  private var types: [String: any ObjectCoder.Type] = [:]
  /// The lowest possible next number.
  private var next = Self.firstNumber

  // MARK: - Of the program

  /// Adds the coder that a definition or the options name. Throws `.invalidDefinition` for a name that is not allowed,
  /// or that another type has.
  mutating func add(_ kind: CoderKind) throws {
    guard case .own(let type) = kind, !kind.isUnnamed else { return }
    let name = try Self.checkedName(of: type)
    if let other = types[name], ObjectIdentifier(other) != ObjectIdentifier(type) {
      throw DatabaseError(.invalidDefinition, "the coders \(other) and \(type) have one stored name, \"\(name)\"")
    }
    types[name] = type
  }

  /// Returns the stored name of a coder. Throws `.invalidDefinition` if it is not allowed.
  static func checkedName(of type: any ObjectCoder.Type) throws -> String {
    let name = Name.composed(type.storedName)
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidDefinition, "the stored name of the coder \(type) \(what)")
    }
    if name.isEmpty { throw refused("is empty") }
    guard name.utf8.count <= nameSizeMaximum else {
      throw refused("has \(name.utf8.count) bytes; at most \(nameSizeMaximum) are possible")
    }
    if CoderKind.allCases.contains(where: { $0.description == name }) {
      throw refused("is \"\(name)\", which is Varve's")
    }
    return name
  }

  // MARK: - Of the catalog

  /// Sets the names and the next number that the catalog has.
  mutating func load(_ names: [UInt8: String], next: UInt8) {
    self.names = names
    self.next = max(next, Self.firstNumber)
  }

  mutating func set(_ name: String, for number: UInt8) { names[number] = name }

  /// Returns the number of a stored name, or `nil` if it has none.
  func number(of name: String) -> UInt8? { names.first { $0.value == Name.composed(name) }?.key }

  /// Returns the next free number, given the numbers that collections use, or `nil` if none is left.
  func nextNumber(beside used: some Sequence<UInt8>) -> UInt8? {
    let highest = (names.keys.max() ?? 0, used.max() ?? 0)
    let last = max(highest.0, highest.1)
    if last == .max { return nil }
    return max(last + 1, next)
  }

  // MARK: - Both

  /// Returns the coder with a number: `.own(UnnamedCoder.self)` if the program has not named it, and `nil` for a coder
  /// of a newer Varve.
  func kind(_ number: UInt8) -> CoderKind? {
    if number < Self.firstNumber { return CoderKind(number: number) }
    return .own(names[number].flatMap { types[$0] } ?? UnnamedCoder.self)
  }

  /// Returns the name of a coder for messages.
  func name(_ number: UInt8) -> String {
    CoderKind(number: number)?.description ?? names[number] ?? "number \(number)"
  }

  /// Returns the error for rows of a coder that can't be read or written.
  func unknown(_ number: UInt8) -> DatabaseError {
    let what = names[number].map { "\"\($0)\"" } ?? "with the number \(number), whose name the catalog does not have"
    return DatabaseError(
      .unknownCoder,
      "the coder \(what) is of a program's own, and this program has not named it: add its type to the definition, as "
        + "`coder` or among `formerCoders`")
  }
}
