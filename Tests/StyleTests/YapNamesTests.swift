import Testing

/// Checks that the guide for users of YapDatabase says of each name of its views, mappings and fetches what to use
/// instead, also if there is nothing.
struct YapNamesTests {
  /// The public names of views of all kinds, and of the methods of their transactions.
  private static let views = [
    "YapDatabaseAutoView", "YapDatabaseManualView", "YapDatabaseFilteredView", "SearchResultsView", "grouping",
    "sorting", "filtering", "WithKey", "WithObject", "WithMetadata", "WithRow", "YapDatabaseBlockInvokeOptions",
    "isPersistent", "allowedCollections", "skipInitialViewPopulation", "numberOfGroups", "allGroups", "hasGroup",
    "numberOfItemsInGroup", "numberOfItemsInAllGroups", "isEmptyGroup", "isEmpty",
    "getKey:collection:atIndex:inGroup:", "getFirstKey", "getLastKey", "keyAtIndex", "collectionAtIndex",
    "groupForKey:inCollection:", "getGroup:index:forKey:inCollection:", "versionTag", "objectAtIndex",
    "metadataAtIndex", "firstObjectInGroup", "lastObjectInGroup", "enumerateGroups", "enumerateKeysInGroup",
    "enumerateKeysAndMetadataInGroup", "enumerateKeysAndObjectsInGroup", "enumerateRowsInGroup", "filter",
    "touchRowForKey", "touchObjectForKey", "touchMetadataForKey", "setGrouping:sorting:versionTag:",
    "setSorting:versionTag:", "setFiltering:versionTag:", "findRangeInGroup:using:", "findFirstMatchInGroup:using:",
    "previousVersionTagForRegisteredViewName:", "addKey:inCollection:toGroup:",
    "insertKey:inCollection:atIndex:inGroup:", "removeItemAtIndex:inGroup:", "removeKey:inCollection:fromGroup:",
    "removeAllItemsInGroup:", "performSearchFor:", "performSearchWithQueue:", "YapDatabaseSearchQueue",
    "enqueueQuery", "abortSearchInProgressAndRollback:", "snippetForKey:inCollection:", "snippetOptions",
    "allowedGroups",
  ]

  /// The public names of mappings and of the changes that they report.
  private static let mappings = [
    "YapDatabaseViewMappings", "initWithGroups:view:", "initWithGroupFilterBlock:sortBlock:view:",
    "setIsDynamicSection:forGroup:", "setIsDynamicSectionForAllGroups:", "setRangeOptions:forGroup:", "growOptions",
    "setCellDrawingDependencyForNeighboringCellWithOffset:forGroup:", "setIsReversed:forGroup:",
    "autoConsolidateGroupsThreshold:withName:", "updateWithTransaction:", "snapshotOfLastUpdate", "numberOfSections",
    "numberOfItemsInSection", "visibleGroups", "groupForSection", "sectionForGroup", "indexForRow",
    "getGroup:index:forIndexPath:", "indexPathForIndex:inGroup:", "rowForIndex", "indexPathForKey",
    "getRow:section:forKey:", "getKey:collection:atIndexPath:withMappings:",
    "getKey:collection:forRow:inSection:withMappings:", "objectAtIndexPath", "objectAtRow", "metadataAtIndexPath",
    "metadataAtRow", "rangePositionForGroup", "nearestIndexPathForRow:inGroup:", "isUsingConsolidatedGroup",
    "getSectionChanges:rowChanges:forNotifications:withMappings:", "YapDatabaseViewSectionChange",
    "YapDatabaseViewRowChange", "YapDatabaseViewChangesBitMask", "hasChangesForNotifications:", "hasChangesForGroup:",
    "hasChangesForAnyGroups:", "numberOfRawChangesForNotifications:",
  ]

  /// The public names of fetches in YapDatabaseExtensions.
  private static let fetches = [
    "YapDB.pathToDatabase", "YapDB.databaseNamed", "operations", "YapDB.testDatabase", "YapDB.Fetch",
    "isRegisteredInDatabase", "registerInDatabase", "createViewMappings", "YapDB.View", "YapDB.Filter",
    "YapDB.SearchResults", "YapDB.SecondaryIndex", "YapDB.Mappings", "passThroughFilter", "caseInsensitiveGroupSort",
    "YapDB.FetchConfiguration", "createMappingsRegisteredInDatabase", "YapDB.Search", "usingTerm",
  ]

  @Test func `the guide says of each name of views, mappings and fetches what to use instead`() throws {
    let guide = try #require(Repository.file("Sources/Varve/Varve.docc/Guides/ComingFromYapDatabase.md"))
    let names = Self.views + Self.mappings + Self.fetches
    #expect(names.count == Set(names).count)
    let missing = Self.missing(names, guide)
    #expect(missing.isEmpty, "no row of a table begins with \(missing)")
  }

  @Test func `a name that is in no row, or in a row without an answer, is missing`() {
    let text = "| `a`, `b:c:` | `d` |\n| `e` | |\ntext with `f`\n| in the answer | `g` |\n"
    let names = ["a", "b:c:", "e", "f", "g", "b"]
    #expect(Self.missing(names, SourceFile(path: "A.md", text: text)) == ["e", "f", "g", "b"])
  }

  /// Returns the names that are not in the first cell of a row whose second cell says something.
  private static func missing(_ names: [String], _ guide: SourceFile) -> [String] {
    var answered: Set<Substring> = []
    for line in guide.lines where line.hasPrefix("| ") {
      let cells = line.dropFirst(2).split(separator: " | ", maxSplits: 1)
      guard cells.count == 2, cells[1].contains(where: \.isLetter) else { continue }
      // The pieces with odd numbers are between backquotes.
      let pieces = cells[0].split(separator: "`", omittingEmptySubsequences: false)
      for index in pieces.indices where index % 2 == 1 { answered.insert(pieces[index]) }
    }
    return names.filter { !answered.contains(Substring($0)) }
  }
}
