import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveRelationships

/// Tests of the examples of the document that relationships grew from: four of rows, two of files, and those of its
/// other sections.
///
/// They run both with edges of all names counted, and with those of the same name.
struct SeedExampleTests {
  private static let countings: [Relationships.Counting] = [.allNames, .sameName]

  struct Avatar: Persistable, Equatable {
    static let collection = "avatars"
    var id: String
  }

  /// A player whose avatar is removed with it, and who is notified when the avatar is removed alone.
  struct Player: Persistable, RelationshipNode, Equatable {
    static let collection = "players"
    var id: String
    var avatarID: String?

    func relationshipEdges() throws -> [RelationshipEdge] {
      guard let avatarID else { return [] }
      return [
        try RelationshipEdge(
          "avatar", to: Avatar.self, avatarID, [.deleteDestinationIfSourceDeleted, .notifyIfDestinationDeleted])
      ]
    }

    func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Player? {
      guard edge.name == "avatar", reason == .asIfDestinationDeleted else { return nil }
      var copy = self
      copy.avatarID = nil
      return copy
    }
  }

  private func players(_ counting: Relationships.Counting) throws -> (Database, ExtensionHandle<Relationships>) {
    let graph = Relationships(counting: counting).named("relationships")
    let database = try Database.inMemory {
      Player.self
      Avatar.self
      graph
    }
    return (database, graph)
  }

  @Test func `an edge that was just added is removed as it was returned, and queries take instances`() throws {
    let (database, graph) = try players(.allNames)
    let (player, avatar) = (Player(id: "p"), Avatar(id: "a"))
    try database.write { tx in
      try player.persist(in: tx)
      try avatar.persist(in: tx)
      let edge = try tx[graph].add(try RelationshipEdge("likes", to: avatar), from: player)
      #expect(try tx[graph].edges(EdgeQuery("likes", from: player, to: avatar)) == [edge])
      #expect(try tx[graph].add(edge, from: Player.rowKey("p")) == edge)
      for query in [try EdgeQuery(from: player), try EdgeQuery(to: avatar), try EdgeQuery("likes", to: avatar)] {
        #expect(try tx[graph].count(query) == 1)
      }
      #expect(try tx[graph].hasEdge(EdgeQuery("likes", from: player)))
      #expect(try tx[graph].remove(edge))
      #expect(try !tx[graph].remove(edge) && tx[graph].count() == 0)
    }
    try database.close()
  }

  @Test(arguments: countings) func `a parent owns its child`(counting: Relationships.Counting) throws {
    let (database, _) = try players(counting)
    try database.write { tx in
      try Player(id: "p", avatarID: "a").persist(in: tx)
      try Avatar(id: "a").persist(in: tx)
    }
    try database.write { tx in _ = try Player.delete("p", in: tx) }
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  @Test(arguments: countings) func `the same edge in the other direction has the same effect`(
    counting: Relationships.Counting
  ) throws {
    let (database, graph) = try players(counting)
    try database.write { tx in
      try Player(id: "p").persist(in: tx)
      try Avatar(id: "a").persist(in: tx)
      try tx[graph].add(
        RelationshipEdge("player", to: Player.self, "p", .deleteSourceIfDestinationDeleted), from: Avatar.rowKey("a"))
    }
    try database.write { tx in _ = try Player.delete("p", in: tx) }
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  struct Contact: Persistable {
    static let collection = "contacts"
    var id: Int
    var numberIDs: [Int] = []
  }
  struct PhoneNumber: Persistable {
    static let collection = "numbers"
    var id: Int
  }

  @Test(arguments: countings) func `a parent owns its children, in either direction`(
    counting: Relationships.Counting
  ) throws {
    for isInverse in [false, true] {
      let graph = Relationships(counting: counting).named("relationships")
      let database = try Database.inMemory {
        Contact.self
        PhoneNumber.self
        graph
      }
      try database.write { tx in
        try Contact(id: 1).persist(in: tx)
        for number in 1...3 {
          try PhoneNumber(id: number).persist(in: tx)
          if isInverse {
            try tx[graph].add(
              RelationshipEdge("contact", to: Contact.self, 1, .deleteSourceIfDestinationDeleted),
              from: PhoneNumber.rowKey(number))
          } else {
            try tx[graph].add(
              RelationshipEdge("number", to: PhoneNumber.self, number, .deleteDestinationIfSourceDeleted),
              from: Contact.rowKey(1))
          }
        }
      }
      // One is removed alone, and the others with the contact.
      try database.write { tx in _ = try PhoneNumber.delete(2, in: tx) }
      #expect(try database.read { tx in try tx.count() } == 3)
      try database.write { tx in _ = try Contact.delete(1, in: tx) }
      #expect(try database.read { tx in try tx.count() } == 0)
    }
  }

  @Test(arguments: countings) func `a parent is notified when only its child is deleted`(
    counting: Relationships.Counting
  ) throws {
    let (database, _) = try players(counting)
    try database.write { tx in
      try Player(id: "p", avatarID: "a").persist(in: tx)
      try Avatar(id: "a").persist(in: tx)
    }
    try database.write { tx in _ = try Avatar.delete("a", in: tx) }
    #expect(try database.read { tx in try Player.load("p", in: tx) } == Player(id: "p"))
  }

  struct Neighbourhood: Persistable {
    static let collection = "neighbourhoods"
    var id: Int
  }
  struct Property: Persistable, RelationshipNode {
    static let collection = "properties"
    var id: Int
    var neighbourhood: Int
    func relationshipEdges() throws -> [RelationshipEdge] {
      [
        try RelationshipEdge(
          "neighbourhood", to: Neighbourhood.self, neighbourhood, .deleteDestinationIfAllSourcesDeleted)
      ]
    }
  }

  @Test(arguments: countings) func `references are counted`(counting: Relationships.Counting) throws {
    let graph = Relationships(counting: counting).named("relationships")
    let database = try Database.inMemory {
      Neighbourhood.self
      Property.self
      graph
    }
    try database.write { tx in
      try Neighbourhood(id: 7).persist(in: tx)
      for number in 1...3 { try Property(id: number, neighbourhood: 7).persist(in: tx) }
    }
    for number in 1...3 {
      #expect(try database.read { tx in try tx.count(in: "neighbourhoods") } == 1)
      try database.write { tx in _ = try Property.delete(number, in: tx) }
    }
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  struct FilePlayer: Persistable, RelationshipNode {
    static let collection = "players"
    var id: Int
    var avatar: String
    func relationshipEdges() throws -> [RelationshipEdge] {
      [try RelationshipEdge("avatar", to: .file(root: "images", path: avatar), .deleteDestinationIfSourceDeleted)]
    }
  }
  struct City: Persistable, RelationshipNode {
    static let collection = "cities"
    var id: Int
    var flag: String
    func relationshipEdges() throws -> [RelationshipEdge] {
      [try RelationshipEdge("stateFlag", to: .file(root: "images", path: flag), .deleteDestinationIfAllSourcesDeleted)]
    }
  }

  @Test(arguments: countings)
  func `files: an owned file is removed with its row, and a counted one with the last of its rows`(
    counting: Relationships.Counting
  ) throws {
    let directory = try TemporaryDirectory()
    let removed = DispatchSemaphore(value: 0)
    let graph = Relationships(counting: counting, roots: [FileRoot("images", at: directory.path)]) { _ in
      removed.signal()
    }.named("relationships")
    let database = try Database.inMemory {
      FilePlayer.self
      City.self
      graph
    }
    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: "\(directory.path)/\(name)") }
    for name in ["avatar.png", "flag.png"] {
      try Data("image".utf8).write(to: URL(fileURLWithPath: "\(directory.path)/\(name)"))
    }
    try database.write { tx in
      try FilePlayer(id: 1, avatar: "avatar.png").persist(in: tx)
      for number in 1...3 { try City(id: number, flag: "flag.png").persist(in: tx) }
    }
    try database.write { tx in
      _ = try FilePlayer.delete(1, in: tx)
      _ = try City.delete(1, in: tx)
    }
    removed.wait()
    #expect(!exists("avatar.png") && exists("flag.png"))
    try database.write { tx in
      for number in 2...3 { _ = try City.delete(number, in: tx) }
    }
    removed.wait()
    #expect(!exists("flag.png"))
    try database.close()
  }

  struct Album: Persistable {
    static let collection = "albums"
    var id: Int
  }
  struct Artist: Persistable {
    static let collection = "artists"
    var id: Int
  }
  struct Song: Persistable, RelationshipNode {
    static let collection = "songs"
    var id: Int
    var albumID: Int
    var artistID: Int
    func relationshipEdges() throws -> [RelationshipEdge] {
      let rules: DeleteRules = [.deleteDestinationIfAllSourcesDeleted, .deleteSourceIfDestinationDeleted]
      return [
        try RelationshipEdge("album", to: Album.self, albumID, rules),
        try RelationshipEdge("artist", to: Artist.self, artistID, rules),
      ]
    }
  }

  @Test(arguments: countings) func `an album is removed with its last song, and songs are removed with their album`(
    counting: Relationships.Counting
  ) throws {
    let graph = Relationships(counting: counting).named("relationships")
    let database = try Database.inMemory {
      Album.self
      Artist.self
      Song.self
      graph
    }
    try database.write { tx in
      for id in 1...2 { try Album(id: id).persist(in: tx) }
      try Artist(id: 1).persist(in: tx)
      try Song(id: 1, albumID: 1, artistID: 1).persist(in: tx)
      try Song(id: 2, albumID: 1, artistID: 1).persist(in: tx)
      try Song(id: 3, albumID: 2, artistID: 1).persist(in: tx)
    }
    try database.write { tx in _ = try Song.delete(3, in: tx) }
    #expect(try database.read { tx in try Album.load(2, in: tx) == nil && Artist.load(1, in: tx) != nil })
    try database.write { tx in _ = try Album.delete(1, in: tx) }
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  @Test func `edges are enumerated with the rows that they lead to`() throws {
    let graph = Relationships().named("relationships")
    let database = try Database.inMemory {
      Contact.self
      PhoneNumber.self
      graph
    }
    try database.write { tx in
      try Contact(id: 1).persist(in: tx)
      for number in [3, 1, 2] {
        try PhoneNumber(id: number).persist(in: tx)
        try tx[graph].add(RelationshipEdge("number", to: PhoneNumber.self, number), from: Contact.rowKey(1))
      }
    }
    let numbers = try database.read { tx in
      var numbers: [PhoneNumber] = []
      var cursor = try tx[graph].cursor(EdgeQuery("number", from: Contact.rowKey(1)))
      while let edge = try cursor.next() {
        guard let row = edge.destination.row else { continue }
        if let number = try PhoneNumber.load(PhoneNumber.identifier(of: row), in: tx) { numbers.append(number) }
      }
      return numbers.map(\.id)
    }
    #expect(numbers == [1, 2, 3])
    let included = try database.read { tx in
      try Contact.store(in: database).query.including(edges: graph, "number", PhoneNumber.self).fetch(in: tx)
    }
    #expect(included.map { $0.items.map(\.id) } == [[1, 2, 3]])
    let owners = try database.read { tx in
      try tx[graph].ends("number", of: [PhoneNumber.rowKey(2), PhoneNumber.rowKey(9)], as: Contact.self, .incoming)
    }
    #expect(owners.map { $0.map(\.id) } == [[1], []])
  }

  @Test(arguments: [false, true])
  func `rows that rules remove are readable until the end of the transaction, unless it calls flush`(
    flushes: Bool
  ) throws {
    let (database, graph) = try players(.allNames)
    try database.write { tx in
      try Player(id: "p", avatarID: "a").persist(in: tx)
      try Avatar(id: "a").persist(in: tx)
    }
    try database.write { tx in
      _ = try Player.delete("p", in: tx)
      if flushes { try tx[graph].flush() }
      #expect(try Avatar.load("a", in: tx) == (flushes ? nil : Avatar(id: "a")))
    }
    #expect(try database.read { tx in try Avatar.load("a", in: tx) } == nil)
  }

  @Test func `an edge may be added before its destination`() throws {
    let (database, graph) = try players(.allNames)
    try database.write { tx in
      try Player(id: "p").persist(in: tx)
      try tx[graph].add(
        RelationshipEdge("avatar", to: Avatar.self, "p", .deleteDestinationIfSourceDeleted), from: Player.rowKey("p"))
      try Avatar(id: "p").persist(in: tx)
    }
    #expect(try database.read { tx in try tx[graph].count() } == 1)
  }
}
