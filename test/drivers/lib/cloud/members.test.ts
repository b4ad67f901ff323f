/** The members of a folder from the pages of its listing, which may overlap, and need not end. */
import t from 'tap'
import { Members } from '../../../../drivers/lib/cloud/members.js'

const page = (first: number, length: number) => Array.from({ length }, (_, index) => ({ id: String(first + index) }))

await t.test('pages may overlap, and have entries that are no members', async (t) => {
  const members = new Members<{ readonly id: string }>()
  members.add(page(0, 3), 3)
  members.add(page(2, 2), 4)
  t.same(members.all, page(0, 4))
  t.same([members.size, members.received], [4, 7])
})

await t.test('a listing that has no end is an error', async (t) => {
  const endless = (length: number, pageAt: (number: number) => readonly { readonly id: string }[]) => () => {
    const members = new Members<{ readonly id: string }>()
    for (let number = 0; ; number++) members.add(pageAt(number), length)
  }
  t.throws(
    endless(200, () => page(0, 200)),
    { code: 'unavailable' },
    'the same page again and again',
  )
  t.throws(
    endless(200, () => []),
    { code: 'unavailable' },
    'no members',
  )
  t.throws(
    endless(1000, (number) => page(number * 1000, 1000)),
    { code: 'unavailable' },
    'always new ones',
  )
})
