/** What the search dialog finds by words, and in which order. */
import t from 'tap'
import { consoleModule } from './console-modules.js'

type Names = readonly [name: string, ...others: readonly string[]]

void t.test('words find names', async (t) => {
  const { matching } = (await consoleModule("export { matching } from './navigation/matching.ts'", {
    languages: ['en'],
  })) as {
    readonly matching: (items: readonly Names[], words: string, textsOf: (item: Names) => Names) => readonly Names[]
  }
  const items: readonly Names[] = [
    ['Download of folders', 'package_download'],
    ['Main color', 'main_color', 'Appearance'],
    ['Colors: Dark'],
    ['用户组'],
    ['Ｆｕｌｌ'],
  ]
  const found = (words: string) => [...matching(items, words, (item) => item)].map(([name]) => name)
  t.strictSame(
    found('  '),
    items.map(([name]) => name),
    'no words find all',
  )
  t.strictSame(found('COLOR'), ['Colors: Dark', 'Main color'], 'the beginning of a name is nearest')
  t.strictSame(found('color main'), ['Main color'], 'in any order')
  t.strictSame(found('color appear'), ['Main color'], 'a word may be in another text')
  t.strictSame(found('package'), ['Download of folders'])
  t.strictSame(found('用户'), ['用户组'])
  t.strictSame(found('full'), ['Ｆｕｌｌ'], 'forms of letters do not matter')
  t.strictSame(found('color nothing'), [])
})
