import Foundation
import Varve

/// The object of the index suites: it has a field for each kind of index.
struct Volume: Codable, Identifiable, Sendable, Hashable {
  struct Home: Codable, Sendable, Hashable { var city: String }
  enum Shelf: String, Codable, Sendable, KeyCodable, CaseIterable { case fiction, science }

  var id: Int
  var title: String
  var year = 2000
  var isbn: String?
  var tags: [String] = []
  var codes: Set<Int>?
  var shelf = Shelf.fiction
  var home: Home?
  var price = Decimal(1)
  var weight = 1.0
  var added = Date(timeIntervalSinceReferenceDate: 0)
}

struct VolumeFormat: StoreFormat {
  typealias Instance = Volume
  static let collection = "volumes"

  let title = Index(\.title)
  let byYear = Index(\.year, \.title)
  let byShelf = Index({ $0.shelf }, { $0.year.descending })
  let city = Index({ $0.home.city })
  let price = Index(\.price)
  let added = Index(\.added)
  let weight = Index(\.weight, skipsInvalid: true)
  let isbn = OneToOneIndex(\.isbn)
  let tags = ManyToManyIndex(\.tags)
  let codes = ManyToOneIndex(\.codes)
  let recent = Index(\.year, where: { $0.year >= 2000 && $0.shelf == .science })
  @Direct var direct = Index(\.title, name: "titleAndRow")
}

/// The same collection as a later start of the program declares it: some indexes are new, some are removed, and some
/// are defined differently.
struct OtherVolumeFormat: StoreFormat {
  typealias Instance = Volume
  static let collection = "volumes"

  // Unchanged.
  let byYear = Index(\.year, \.title)
  let tags = ManyToManyIndex(\.tags)
  // Changed: by another field, in another order, now enforced, or no longer enforced.
  let title = Index(\.year)
  let byShelf = Index({ $0.shelf.descending }, { $0.year })
  let recent = Index(\.year, where: { $0.year >= 1990 })
  let codes = ManyToManyIndex(\.codes)
  // New.
  let home = Index(name: "homeTown", { $0.home.city })
  let late = OneToOneIndex(\.isbn, deferred: true)
}
