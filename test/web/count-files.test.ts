/** Counting what folders have, without a browser. */
import t from 'tap'
import { consoleModule } from './console-modules.js'

interface Count {
  readonly files: number
  readonly folders: number
  readonly size: number
  readonly unread: number
  readonly isComplete: boolean
}
type CountFiles = (folders: readonly string[], options: object, most?: object) => Promise<Count>

const { countFiles } = (await consoleModule(`export { countFiles } from './files/count-files.ts'`, {
  languages: [],
})) as { readonly countFiles: CountFiles }

const file = (name: string, size: number) => ({ name, size, is_dir: false })
const folder = (name: string) => ({ name, size: 0, is_dir: true })
const tree: Readonly<Record<string, readonly object[]>> = {
  '/': [folder('a'), file('1', 1)],
  '/a': [folder('b'), folder('closed'), file('2', 2), file('3', 4)],
  '/a/b': [file('4', 8)],
}

/** Lists with two entries on a page. */
async function list(path: string, page: number) {
  const entries = tree[path]
  if (!entries) throw new Error('closed')
  return { content: entries.slice(page * 2, page * 2 + 2), total: entries.length }
}

void t.test('everything is counted page by page, and what cannot be read is said', async (t) => {
  const counts: Count[] = []
  const options = { list, onCount: (count: Count) => counts.push(count), signal: { aborted: false } }
  t.match(await countFiles(['/'], options), { files: 4, folders: 3, size: 15, unread: 1, isComplete: false })
  t.equal(counts.length, 5)
  t.match(await countFiles(['/a/b'], options), { files: 1, folders: 0, size: 8, unread: 0, isComplete: true })
})

void t.test('a count ends at its bounds and when it is stopped', async (t) => {
  let requests = 0
  const endless = {
    list: async () => (requests++, { content: [folder('again')], total: 1 }),
    onCount: () => undefined,
    signal: { aborted: false },
  }
  t.match(await countFiles(['/'], endless, { entries: 100, requests: 7 }), { folders: 7, isComplete: false })
  t.equal(requests, 7)
  t.match(await countFiles(['/'], endless, { entries: 3, requests: 100 }), { folders: 3, isComplete: false })
  t.match(await countFiles(['/'], { ...endless, signal: { aborted: true } }), { folders: 0, isComplete: false })
})
