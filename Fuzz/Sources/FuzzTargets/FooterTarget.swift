@testable import VarveEngine

/// The target for the footer of a table.
enum FooterTarget {
  static func read(_ input: ByteView) throws {
    // The file size is the one that the footer itself names, so that the code after that check is reached.
    let fileSize = input.count >= 16 ? input.load(8, as: UInt64.self) : 0
    let footer = try TableFooter(input, fileSize: fileSize, path: "table")
    var writer = ByteWriter()
    footer.append(to: &writer)
    try require(writer.view == input, "the footer changed when it was written again: \(footer)")
    for page in [0, TableFilter.pageCount(footer) - 1] where footer.filterLineCount > 0 {
      let handle = TableFilter.handle(page, footer)
      try require(
        (handle.end ?? .max) <= fileSize, "page \(page) of the filter ends at \(handle.end ?? .max) of \(fileSize)")
    }
  }
}

/// The target for the content of a properties block.
enum PropertiesTarget {
  static func read(_ input: ByteView) throws {
    let properties = try TableProperties(input, path: "table", offset: 0)
    var writer = ByteWriter()
    properties.append(to: &writer)
    let copy: TableProperties
    do throws(EngineError) {
      copy = try TableProperties(writer.view, path: "table", offset: 0)
    } catch {
      throw FuzzFailure("properties that were written can't be read: \(error)")
    }
    try require(copy == properties, "the properties changed: \(properties) to \(copy)")
    try require(
      properties.smallestSequence <= .maximum && properties.largestSequence <= .maximum,
      "the properties have a sequence above 56 bits")
  }
}
