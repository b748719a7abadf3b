import EngineTestSupport
import Testing
import Varve
import VarveViews

@testable import ObjectFixtures

/// A card as a newer program stores it, in any suit.
private struct WideCard: Codable, Identifiable, Sendable {
  var id: Int
  var deck = "a"
  var suit = "hearts"
}

/// A card as this program knows it: one of another suit can't be decoded.
private struct Card: Codable, Identifiable, Sendable, Hashable {
  enum Suit: String, Codable, Sendable { case hearts, spades }
  var id: Int
  var deck = "a"
  var suit = Suit.hearts
}

private struct WideCards: StoreFormat {
  typealias Instance = WideCard
  static let collection = "cards"
  let byDeck = Index(\.deck, \.id, counted: true)
}

private struct ThrowingCards: StoreFormat {
  typealias Instance = Card
  static let collection = "cards"
  let byDeck = Index(\.deck, \.id, counted: true)
}

private struct SkippingCards: StoreFormat {
  typealias Instance = Card
  static let collection = "cards"
  static let undecodable: UndecodablePolicy = .skips
  let byDeck = Index(\.deck, \.id, counted: true)
}

/// Tests of lists on screen over a store with a row that can't be decoded: the line of `LiveList` of the table in the
/// guide *Queries*.
@MainActor struct UndecodableListTests {
  private static let bad = 2

  /// Opens a store of five cards, of which one has a suit that this program does not know.
  private func open<Format: StoreFormat>(
    _ format: Format.Type
  ) async throws -> (database: Database, cards: Store<Format>) where Format.Instance == Card {
    let shared = try SharedBackend()
    let newer = try shared.open(DatabaseDefinition { WideCards.self })
    let cards = Store<WideCards>(in: newer)
    try await cards.persist(
      contentsOf: (0..<5).map { WideCard(id: $0, suit: $0 == Self.bad ? "stars" : "hearts") })
    try await newer.close()
    let database = try shared.open(DatabaseDefinition { format })
    let store = Store<Format>(in: database)
    try await store.warm()
    return (database, store)
  }

  private func list<Format: StoreFormat>(
    _ cards: Store<Format>, window: ListWindow = .first(200)
  ) -> LiveList<SectionedQuery<Format, String>> where Format.Instance == Card, Format.Identifier == Int {
    LiveList(cards.query.sorted(by: \.id).sectioned(by: \.deck), window: window)
  }

  private func check<Format: StoreFormat>(
    _ format: Format.Type
  ) async throws where Format.Instance == Card, Format.Identifier == Int {
    let (database, cards) = try await open(format)
    let list = list(cards)
    await waitUntil { list.state.isLoaded }
    #expect(list.rows.map(\.id) == [0, 1, 2, 3, 4] && list.count == 5)
    let shown = list.rows[Self.bad]
    #expect(shown.element == nil && (shown.error as? DatabaseError)?.code == .decodingFailed)
    #expect((shown.error as? DatabaseError)?.key == "\(Self.bad)")
    #expect(list.sections[0].elements.map(\.id) == [0, 1, 3, 4], "the others are shown")
    #expect(list.indexPath(of: Self.bad) == ListIndex(section: 0, offset: Self.bad))

    // The list continues: other rows change, and the row can be decoded, moved and removed.
    try await cards.persist(Card(id: 5, suit: .spades))
    await waitUntil { list.count == 6 }
    #expect(list.rows.map { $0.element == nil } == [false, false, true, false, false, false])
    try await cards.persist(Card(id: Self.bad, suit: .spades))
    await waitUntil { list.rows.allSatisfy { $0.element != nil } }
    #expect(list.rows[Self.bad].element?.suit == .spades && list.rows[Self.bad].error == nil)
    _ = try await cards.deleteIfPresent(Self.bad)
    await waitUntil { list.count == 5 }
    #expect(list.rows.map(\.id) == [0, 1, 3, 4, 5] && list.state.error == nil)
    try await database.close()
  }

  @Test("a list of a store that skips shows a placeholder for a row that can't be decoded, and continues")
  func skips() async throws { try await check(SkippingCards.self) }

  @Test("a list of a store that throws shows a placeholder for a row that can't be decoded, and continues")
  func throwing() async throws { try await check(ThrowingCards.self) }

  @Test("a window and a condition meet the row: the window counts it, and no condition matches it")
  func windows() async throws {
    let (database, cards) = try await open(SkippingCards.self)
    let window = list(cards, window: .last(3))
    await waitUntil { window.state.isLoaded }
    #expect(window.rows.map(\.id) == [2, 3, 4] && window.rows[0].element == nil)
    window.grow(at: .start, by: 1)
    await waitUntil { window.rows.count == 4 }
    #expect(window.rows.map(\.id) == [1, 2, 3, 4])
    window.filter { $0.suit == .hearts }
    await waitUntil { !window.isFiltering }
    #expect(window.rows.map(\.id) == [0, 1, 3, 4] && window.count == 4, "\(window.rows.map(\.id))")
    #expect(window.state.error == nil)
    window.filter(where: nil)
    await waitUntil { !window.isFiltering }
    #expect(window.count == 5)
    try await database.close()
  }

  @Test("the groups of a list count the row")
  func groups() async throws {
    let (database, cards) = try await open(SkippingCards.self)
    let groups = LiveGroups(cards.query.sorted(by: \.id).sectioned(by: \.deck))
    await waitUntil { groups.state.isLoaded }
    #expect(groups.count(of: "a") == 5)
    try await database.close()
  }
}
