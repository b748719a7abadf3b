import Testing

@testable import VarveEngine

struct FileNameTests {
  @Test(arguments: [
    FileName.lock, .current, .currentTemporary, .shared, .statistics, .manifest(FileNumber(7)), .log(FileNumber(12)),
    .pooledLog(FileNumber(1_234_567)), .table(FileNumber(0)),
  ])
  func `a name that the engine gives is read back`(name: FileName) {
    #expect(FileName(name.name) == name)
  }

  @Test(arguments: ["12.log", "+00012.log", "000012.LOG", "000012.sst.bak", "MANIFEST-", "manifest-000001", ".log"])
  func `another spelling is not a name of the engine`(name: String) {
    #expect(FileName(name) == nil)
  }
}
