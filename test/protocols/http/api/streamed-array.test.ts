/** Long lists in chunks: as a whole, and cut out of the cached JSON of a longer list. */
import { buffer } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import t from 'tap'
import { StreamedArray } from '../../../../protocols/http/api/streamed-array.js'
import type { SerializedPart, SerializedParts } from '../../../../src/tree/virtual-fs.js'

interface Item {
  readonly name: string
}

/** Names of one to many bytes, in which what separates items occurs too. */
const itemOf = (index: number): Item => ({ name: `${index} "},{" ${'ä😀'.repeat(index % 7)}` })

async function json(list: StreamedArray<Item>): Promise<string> {
  return `[${(await buffer(Readable.from(list.chunks()))).toString()}]`
}

function cacheOfParts(): SerializedParts {
  const parts = new Map<number, SerializedPart>()
  return { get: (from) => parts.get(from), set: (from, part) => void parts.set(from, part) }
}

/** A list of `count` items, with how many of them it has made. */
function counting(count: number, cache: SerializedParts | undefined) {
  const made = { items: 0 }
  const createItems = (from: number, to: number) => {
    made.items += to - from
    return Array.from({ length: to - from }, (_, at) => itemOf(from + at))
  }
  return { made, list: new StreamedArray(count, createItems, { chunkLength: 10, cacheOf: () => cache }) }
}

/** The items at these places of a list; undefined: an item of its own. */
function excerpt(whole: StreamedArray<Item>, places: readonly (number | undefined)[], chunkLength = 10) {
  const made: number[] = []
  const createItems = (from: number, to: number) =>
    places.slice(from, to).map((place, at) => {
      made.push(from + at)
      return place === undefined ? { name: 'own' } : itemOf(place)
    })
  const list = new StreamedArray(places.length, createItems, {
    chunkLength,
    excerpt: { whole, placesOf: () => (index) => places[index] },
  })
  return { made, list }
}

void t.test('a list is the same in chunks, and made once if it is cached', async (t) => {
  for (const count of [0, 1, 9, 10, 11, 25]) {
    const { made, list } = counting(count, cacheOfParts())
    const expected = JSON.stringify(Array.from({ length: count }, (_, at) => itemOf(at)))
    t.equal(await json(list), expected)
    t.equal(await json(list), expected)
    t.equal(made.items, count)
  }
})

void t.test('an excerpt of a cached list is cut out of its JSON', async (t) => {
  const all = Array.from({ length: 35 }, (_, at) => at)
  const own = undefined
  const cases: readonly (readonly (number | undefined)[])[] = [
    all,
    all.slice(1),
    all.slice(0, -1),
    all.filter((at) => at % 10 !== 0),
    all.filter((at) => at % 10 !== 9),
    all.filter((at) => at % 2 === 0),
    all.filter((at) => at < 8 || at > 31),
    all.map((at) => (at % 3 === 0 ? own : at)),
    [own, own, ...all.slice(2, 20), own],
    [34],
    [own],
    [],
  ]
  for (const places of cases) {
    for (const chunkLength of [10, 7, 100]) {
      const whole = counting(all.length, cacheOfParts())
      const expected = JSON.stringify(places.map((place) => (place === own ? { name: 'own' } : itemOf(place))))
      const { made, list } = excerpt(whole.list, places, chunkLength)
      t.equal(await json(list), expected)
      const { items } = whole.made
      t.equal(await json(list), expected)
      t.equal(whole.made.items, items, 'made once')
      t.equal(made.length, 2 * places.filter((place) => place === own).length, 'of its own it makes no others')
      t.equal(await json(whole.list), JSON.stringify(all.map(itemOf)), 'the whole list is as it was')
    }
  }
})

void t.test('an excerpt takes what was cached as a whole, and makes its items without a cache', async (t) => {
  const whole = counting(25, cacheOfParts())
  await json(whole.list)
  const places = [3, 4, 15, 24]
  t.equal(await json(excerpt(whole.list, places).list), JSON.stringify(places.map(itemOf)))
  t.equal(whole.made.items, 50, 'its parts are made once more, item by item')
  t.equal(await json(excerpt(whole.list, [0, 9, 10]).list), JSON.stringify([0, 9, 10].map(itemOf)))
  t.equal(whole.made.items, 50)

  const uncached = counting(25, undefined)
  t.equal(await json(excerpt(uncached.list, places).list), JSON.stringify(places.map(itemOf)))
  t.equal(uncached.made.items, 0)

  const refusing = counting(25, { get: () => undefined, set: () => undefined })
  t.equal(await json(excerpt(refusing.list, [1, 2, 4, 11, 13]).list), JSON.stringify([1, 2, 4, 11, 13].map(itemOf)))
  t.equal(refusing.made.items, 20, 'a part that is not kept is made once for each list')
})
