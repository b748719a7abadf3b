/// A counted part whose entries were counted again.
package struct RecountedPart: Hashable, Sendable {
  /// The name of the extension.
  package let extensionName: String
  /// The name of the part.
  package let part: String
  /// The number of differences between its counts and its entries.
  package let differenceCount: Int
}

/// A counted part of an extension that is on disk.
package struct StoredCounts {
  package let part: ExtensionRecord.Part
  /// The name of the family of the entries.
  package let entries: String
  /// The name of the family of the counts.
  package let runs: String
}

extension ExtensionRecord {
  /// The counted parts whose entries and counts must agree, without those of the record that replaces this one.
  ///
  /// A part that begins again, or that is in memory, does not count: what its families have is not used.
  package var storedCounts: [StoredCounts] {
    if case .failed = state { return [] }
    return parts.compactMap { part in
      guard part.form == .values, !part.isVolatile, part.watermark != [], !(isBuiltAnew && part.isDerived),
        let runs = runs(of: part)
      else { return nil }
      return StoredCounts(part: part, entries: familyName(part), runs: familyName(runs))
    }
  }

  /// Whether derived parts are emptied when the extension is registered.
  private var isBuiltAnew: Bool {
    switch state {
    case .stale(nil), .ingesting: true
    case .stale, .building, .ready, .failed: false
    }
  }

  /// Returns whether the loss of what some families had concerns counts only, which are made again without a build.
  func concernsOnlyCounts(_ families: Set<String>) -> Bool {
    let records = [self] + (shadow.map { [$0] } ?? [])
    return families.isSubset(
      of: records.flatMap { record in record.parts.filter(record.isCompanion).map(record.familyName) })
  }
}

/// Counts the entries of the counted parts of all extensions again, in a database that is not open.
struct CountRepair {
  let backend: any StorageBackend
  let catalog: StorageFamily

  /// Counts again, and returns the parts whose counts were wrong.
  ///
  /// Parts of extensions whose record can't be read are left: nothing can be said of them. Throws `.corruption` if a
  /// block can't be read, `.storage`. Complexity: O(n) of the entries of counted parts.
  func run() throws -> [RecountedPart] {
    let families = Dictionary(try backend.families().map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    var recounted: [RecountedPart] = []
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.extensions), in: catalog, of: try backend.snapshot(), isReverse: false)
    while let (key, value) = try cursor.next() {
      guard let name = try? CatalogKey.name(in: key), let record = try? ExtensionRecord(value, name: name) else {
        continue
      }
      for record in [record] + (record.shadow.map { [$0] } ?? []) {
        for stored in record.storedCounts where families[stored.entries] != nil || families[stored.runs] != nil {
          let count = try RunRepair(backend).recount(families[stored.entries], countsIn: stored.runs)
          if count == 0 { continue }
          recounted.append(RecountedPart(extensionName: name, part: stored.part.name, differenceCount: count))
        }
      }
    }
    return recounted
  }
}
