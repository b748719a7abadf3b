import Testing

/// Holds the size of the largest circle of each module: the files of which each one names, directly or through others,
/// the types of each other one.
///
/// A reader who changes one file of a circle has to know all of them. Layers bound the circles from outside, and this
/// test bounds them from inside: the folders of one layer may name each other.
struct CircleTests {
  /// The number of files in the largest circle of each module. A number only becomes smaller: the change that makes a
  /// circle smaller lowers it.
  private static let sizes = [
    "Varve": 46, "VarveEngine": 8, "VarveRelationships": 8, "VarveTasks": 14, "VarveViews": 2,
  ]

  @Test(arguments: sizes.keys.sorted())
  func `the largest circle of files has the recorded size`(module: String) throws {
    let files = Repository.files(in: ["Sources/" + module], ["swift"])
    #expect(files.count > 20, "\(module) was not found at \(Repository.root)")
    let circle = Self.largestCircle(files)
    let size = try #require(Self.sizes[module])
    let list = circle.joined(separator: "\n")
    #expect(circle.count <= size, "\(circle.count) files name each other's types, and \(size) did before:\n\(list)")
    #expect(circle.count >= size, "the largest circle has become smaller: lower its number to \(circle.count)")
  }

  @Test func `files that name each other, directly or through others, are a circle`() {
    let files = [
      SourceFile(path: "A.swift", text: "struct A { let next: B }\n"),
      SourceFile(path: "B.swift", text: "struct B {\n  // D\n  let next: C\n}\n"),
      SourceFile(path: "C.swift", text: "struct C { let first: A }\n"),
      SourceFile(path: "D.swift", text: "struct D { let first: A }\n"),
    ]
    #expect(Self.largestCircle(files) == ["A.swift", "B.swift", "C.swift"])
  }

  @Test func `a type that a file declares itself is no reference to another file`() {
    let files = [
      SourceFile(path: "A.swift", text: "struct A {\n  struct State {}\n  let state: State\n}\n"),
      SourceFile(path: "State.swift", text: "struct State { let owner: A }\n"),
    ]
    #expect(Self.largestCircle(files).count == 1)
  }

  /// Returns the paths of the files in the largest circle.
  private static func largestCircle(_ files: [SourceFile]) -> [String] {
    let named = references(files)
    let reached = files.indices.map { reachable(from: $0, named) }
    let circles = files.indices.map { file in reached[file].filter { reached[$0].contains(file) } }
    return circles.max { $0.count < $1.count }.map { $0.map { files[$0].path }.sorted() } ?? []
  }

  /// Returns for each file the files whose types it names.
  private static func references(_ files: [SourceFile]) -> [Set<Int>] {
    let codes = files.map { SwiftCode.stripped($0.text) }
    var owners: [Substring: Set<Int>] = [:]
    for (index, code) in codes.enumerated() {
      for name in SwiftCode.topLevelTypes(code) { owners[Substring(name), default: []].insert(index) }
    }
    return codes.enumerated().map { index, code in
      let own = Set(SwiftCode.nestedTypes(code).map { Substring($0) })
      let names = Set(SwiftCode.words(code).map(\.text)).subtracting(own)
      return names.reduce(into: []) { $0.formUnion(owners[$1] ?? []) }
    }
  }

  /// Returns the files that can be reached from a file along the types that files name, including itself.
  private static func reachable(from file: Int, _ named: [Set<Int>]) -> Set<Int> {
    var reached: Set<Int> = [file]
    var open = [file]
    while let next = open.popLast() {
      for other in named[next] where reached.insert(other).inserted { open.append(other) }
    }
    return reached
  }
}
