/** The limit of wrong folder passwords. */
import t from 'tap'
import { PasswordGuesses } from '../../src/tree/folder-rules.js'
import { principal } from '../accounts/principals.js'

const rule = { id: 1, path: '/closed' }
const throttled = { code: 'throttled', retryAfter: 300 }
const minute = 60_000

void t.test('five different wrong passwords lock a rule for five minutes, with one line of log', async (t) => {
  let time = 0
  const lines: unknown[] = []
  const log = { warn: (details: object) => void lines.push(details) }
  const guesses = new PasswordGuesses(log, () => time)
  const who = principal({ address: '192.0.2.1' })
  const wrong = (password: string) => {
    guesses.assertNotLocked(rule, who)
    guesses.countWrong(rule, who, password)
  }
  for (const each of ['1', '2', '1', '3', '2', '4', '4']) wrong(each)
  t.same(lines, [])
  wrong('5')
  t.throws(() => wrong('6'), throttled)
  t.throws(() => wrong('1'), throttled)
  t.match(lines, [{ protocol: 'http', user: 'ada', network: '192.0.2.1', folder: '/closed' }])
  t.equal(lines.length, 1)
  guesses.assertNotLocked({ ...rule, id: 2 }, who)
  guesses.assertNotLocked(rule, who.from('192.0.2.2'))
  time += 5 * minute
  for (const each of ['1', '2', '3', '4', '5']) wrong(each)
  for (const each of ['6', '7', '8', '9', '10']) wrong(each)
  t.throws(() => wrong('11'), throttled, 'the count starts again; passwords that were counted before are remembered')
  t.equal(lines.length, 2)
})

void t.test('without a network, as in a task, the wrong passwords of the user are counted', async (t) => {
  const guesses = new PasswordGuesses(undefined, () => 0)
  const who = principal({ userId: 7 })
  for (const password of ['1', '2', '3', '4', '5']) guesses.countWrong(rule, who, password)
  t.throws(() => guesses.assertNotLocked(rule, who), throttled)
  guesses.assertNotLocked(rule, principal({ userId: 8 }))
  guesses.assertNotLocked(rule, who.from('192.0.2.1'))
})
