/** Refusals that are too many to be recorded one by one. */
import { mock } from 'node:test'
import t from 'tap'
import { Flood } from '../../src/audit/flood.js'
import { asPath } from '../../src/base/path.js'
import type { Actor, EventFacts } from '../../src/database/audit-rows.js'

class World {
  now = 0
  readonly recorded: EventFacts[] = []
  readonly flood = new Flood(
    (facts) => this.recorded.push(facts),
    () => this.now,
  )

  /** How many of so many refusals are held. */
  refuse(count: number, actor: Partial<Actor> = {}, facts: Partial<EventFacts> = {}): number {
    const all = Array.from({ length: count }, (): EventFacts => {
      const from = { name: 'ann', address: '192.0.2.1', ...actor }
      return { kind: 'removed', result: 'refused', error: 'denied', actor: from, ...facts }
    })
    return all.filter((each) => this.flood.holds(each)).length
  }
}

void t.test('a sum says what all of its refusals have in common, and the network of different addresses', (t) => {
  const world = new World()
  t.equal(world.refuse(101, { address: '2001:db8::1' }, { path: asPath('/a') }), 1)
  t.equal(world.refuse(1, { address: '2001:db8::1', userId: 3 }, { path: asPath('/b'), subject: 'x' }), 1)
  world.flood.close()
  const common = { kind: 'removed', result: 'refused', error: 'denied', count: 2 }
  t.match(world.recorded, [{ ...common, actor: { name: 'ann', address: '2001:db8::1', userId: undefined } }])
  t.same([world.recorded[0]?.path, world.recorded[0]?.subject], [undefined, undefined])

  const other = new World()
  other.refuse(101, { address: '2001:db8::1', name: 'ann', protocol: 'http' })
  other.refuse(1, { address: '2001:db8::2', name: 'ben', protocol: 'http' })
  other.refuse(1, { address: '2001:db8::1', name: 'ann', protocol: 'http' })
  other.flood.close()
  const actor = { name: '', address: '2001:db8:0:0::/64', protocol: 'http' }
  t.match(other.recorded, [{ ...common, actor, count: 3 }])
  t.end()
})

void t.test('the networks of one site, a /48 of IPv6, are counted together', (t) => {
  const world = new World()
  const from = (network: number) => ({ address: `2001:db8:1:${network.toString(16)}::1` })
  let held = 0
  for (let network = 0; network < 1000; network++) held += world.refuse(1, from(network))
  t.equal(held, 900)
  t.equal(world.refuse(1, { address: '2001:db8:2::1' }), 0, 'another site')
  world.flood.close()
  t.match(world.recorded, [{ actor: { address: '2001:db8:1::/48' }, count: 900 }])
  t.end()
})

void t.test('visits of one share from one network are counted, and what else is done is not', (t) => {
  const world = new World()
  const visit = { kind: 'share.opened', result: 'done', error: undefined } as const
  t.equal(world.refuse(150, { name: 'share:a' }, { ...visit, subject: 'a' }), 50)
  t.equal(world.refuse(100, { name: 'share:b' }, { ...visit, subject: 'b' }), 0)
  t.equal(world.refuse(1, { name: 'share:a', address: '192.0.2.2' }, visit), 0)
  t.equal(world.refuse(500, { name: 'share:a' }, { kind: 'file.stored', result: 'done' }), 0)
  t.equal(world.refuse(500, { name: 'share:a' }, { kind: 'share.opened', result: 'failed' }), 0)
  world.flood.close()
  t.match(world.recorded, [{ ...visit, subject: 'a', actor: { name: 'share:a', address: '192.0.2.1' }, count: 50 }])
  t.equal(world.recorded.length, 1)
  t.end()
})

void t.test('one refusal that was held is recorded as it was', (t) => {
  const world = new World()
  const facts = { path: asPath('/a'), decidedBy: 'the rule at /a', size: 5 }
  world.refuse(101, {}, facts)
  world.flood.close()
  t.match(world.recorded, [{ actor: { name: 'ann', address: '192.0.2.1' }, kind: 'removed', ...facts }])
  t.equal(world.recorded[0]?.count, undefined)
  t.equal(world.refuse(500), 0, 'after the end, nobody would record what is held')
  t.end()
})

void t.test('a sum is recorded at the end of its minute', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const world = new World()
  t.equal(world.refuse(100), 0)
  world.now = 50_000
  t.equal(world.refuse(5), 5)
  t.equal(world.refuse(105, { address: '192.0.2.2' }), 5)
  world.now = 60_000
  mock.timers.tick(10_000)
  t.match(world.recorded, [{ actor: { address: '192.0.2.1' }, count: 5 }])
  t.equal(world.recorded.length, 1)
  t.equal(world.refuse(1), 0, 'another minute has begun')
  world.now = 110_000
  mock.timers.tick(50_000)
  t.match(world.recorded[1], { actor: { address: '192.0.2.2' }, count: 5 })
  t.end()
})
