/** Direct URLs are cached while they are valid; concurrent callers share one request. */
import t from 'tap'
import type { DirectUrl } from '../../src/contract/capabilities.js'
import { asPath } from '../../src/base/path.js'
import { DirectUrlCache } from '../../src/storage/direct-url-cache.js'

const file = asPath('/a/file')
const inTime = (seconds: number): Date => new Date(Date.now() + seconds * 1000)

/** A backend that numbers its direct URLs. */
function backend(until?: Date) {
  const state = { asked: 0 }
  const ask = async (): Promise<DirectUrl> => ({ url: `https://x/${++state.asked}`, ...(until && { until }) })
  return { state, ask }
}

void t.test('a direct URL is cached while it stays valid long enough to be used', async (t) => {
  for (const [until, asked] of [
    [inTime(3600), 1],
    [inTime(30), 2],
    [undefined, 2],
  ] as const) {
    const links = new DirectUrlCache()
    const { state, ask } = backend(until)
    await links.get(file, ask)
    t.match(await links.get(file, ask), { url: `https://x/${asked}` })
    t.equal(state.asked, asked)
  }
})

void t.test('an expired direct URL is not returned', async (t) => {
  const links = new DirectUrlCache()
  t.equal(await links.get(file, backend(inTime(-1)).ask), undefined)
  t.equal(await links.get(file, async () => undefined), undefined)
})

void t.test('concurrent callers share one request, also if it fails', async (t) => {
  const links = new DirectUrlCache()
  const { state, ask } = backend()
  const all = await Promise.all([1, 2, 3].map(() => links.get(file, ask)))
  t.same(all, [{ url: 'https://x/1' }, { url: 'https://x/1' }, { url: 'https://x/1' }])
  const refuse = () => Promise.reject(new Error('no'))
  await Promise.all([1, 2].map(() => t.rejects(links.get(file, refuse), { message: 'no' })))
  t.match(await links.get(file, ask), { url: 'https://x/2' })
  t.equal(state.asked, 2)
})

void t.test('an invalidated file gets a new direct URL, also while one is being requested', async (t) => {
  const links = new DirectUrlCache()
  const { state, ask } = backend(inTime(3600))
  await links.get(file, ask)
  links.invalidate(asPath('/a'), false)
  await links.get(file, ask)
  t.equal(state.asked, 1)
  links.invalidate(asPath('/a'), true)
  const old = links.get(file, ask)
  links.invalidate(file, false)
  t.match(await links.get(file, ask), { url: 'https://x/3' })
  t.match(await old, { url: 'https://x/2' })
  t.match(await links.get(file, ask), { url: 'https://x/3' }, 'the old one is not cached')
})

void t.test('a direct URL that is bound to a client is not given to another one', async (t) => {
  const links = new DirectUrlCache()
  const { state, ask } = backend(inTime(3600))
  const [player, browser] = [{ userAgent: 'player' }, { userAgent: 'browser' }]
  const [first, second] = await Promise.all([links.get(file, ask, player), links.get(file, ask, browser)])
  t.not(first?.url, second?.url, 'also while they are requested')
  t.equal(await links.get(file, ask, player), first)
  t.equal(await links.get(file, ask, browser), second)
  t.not((await links.get(file, ask, { userAgent: undefined }))?.url, first?.url)
  t.equal(state.asked, 3)
  links.invalidate(file, false)
  await links.get(file, ask, player)
  await links.get(file, ask, browser)
  t.equal(state.asked, 5)
  links.invalidate(asPath('/a'), true)
  await links.get(file, ask, player)
  t.equal(state.asked, 6)
})
