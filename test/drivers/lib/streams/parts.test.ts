/** Bodies in parts: order, parallel parts, failures on either side, and what is left of them. */
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { BodyReader, contiguousParts, sendParts, type PartLayout } from '../../../../drivers/lib/streams/parts.js'
import { GatewayError } from '../../../../src/base/errors.js'

const content = Buffer.from(Array.from({ length: 1000 }, (_, index) => index % 251))
const layout: PartLayout = { partLength: () => 100, maxParts: 100, parallel: 4, firstPart: 1 }

function body(bytes = content, chunk = 33): Readable {
  const pieces = function* () {
    for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk)
  }
  return Readable.from(pieces(), { objectMode: false })
}

function receiver() {
  const parts = new Map<number, Buffer>()
  const state = { running: 0, most: 0, order: [] as number[] }
  const send = async (part: number, bytes: Buffer) => {
    state.order.push(part)
    state.most = Math.max(state.most, ++state.running)
    await wait(5 * Math.random())
    parts.set(part, Buffer.from(bytes))
    state.running--
  }
  const all = () => Buffer.concat([...parts].sort(([one], [other]) => one - other).map(([, bytes]) => bytes))
  return { parts, state, send, all }
}

await t.test('parts are sent in parallel up to the limit, or in order', async (t) => {
  for (const parallel of [1, 4]) {
    const { state, send, all } = receiver()
    await sendParts(new BodyReader(body(), content.length), { ...layout, parallel }, send, undefined)
    t.ok(all().equals(content))
    t.same([state.most, state.running], [parallel, 0])
    t.same(
      state.order,
      Array.from({ length: 10 }, (_, index) => index + 1),
    )
  }
})

await t.test('large parts are not collected in memory', async (t) => {
  const { state, send } = receiver()
  const size = 100 * 1024 * 1024
  const large = { ...layout, partLength: () => 20 * 1024 * 1024 }
  const chunk = Buffer.alloc(1024 * 1024)
  const pieces = function* () {
    for (let at = 0; at < size; at += chunk.length) yield chunk
  }
  const reader = new BodyReader(Readable.from(pieces(), { objectMode: false }), size)
  await sendParts(reader, large, async (part, bytes) => send(part, bytes.subarray(0, 1)), undefined)
  t.ok(state.most <= 3, `${state.most} parts of 20 MiB`)
})

await t.test('parts that were sent leave their memory to others', async (t) => {
  const { send, all } = receiver()
  const memories = new Set<ArrayBufferLike>()
  const sendNoted = async (part: number, bytes: Buffer) => {
    memories.add(bytes.buffer)
    await send(part, bytes)
  }
  await sendParts(new BodyReader(body(), content.length), layout, sendNoted, undefined)
  t.ok(all().equals(content))
  t.ok(memories.size <= layout.parallel, `${memories.size} buffers for 10 parts`)
})

await t.test('a part that fails ends the others and the body', async (t) => {
  const source = body()
  const signals: AbortSignal[] = []
  const send = async (part: number, _bytes: Buffer, signal: AbortSignal) => {
    signals.push(signal)
    await wait(5)
    if (part === 3) throw new GatewayError('no_space')
  }
  await t.rejects(sendParts(new BodyReader(source, content.length), layout, send, undefined), { code: 'no_space' })
  t.ok(source.destroyed)
  t.ok(signals.every(({ aborted }) => aborted))
  t.ok(signals.length < 10)
})

await t.test('a body that fails completes the running parts of a resumable upload', async (t) => {
  for (const isResumable of [true, false]) {
    const { state, parts, send } = receiver()
    const source = body(content.subarray(0, 450))
    const sending = sendParts(new BodyReader(source, content.length), { ...layout, isResumable }, send, undefined)
    await t.rejects(sending, { code: 'invalid' })
    t.equal(state.running, 0, 'nothing is running when it rejects')
    if (isResumable) t.equal(parts.size, 4)
  }
})

await t.test('an abort ends it, and more parts than allowed are refused', async (t) => {
  const { send } = receiver()
  const controller = new AbortController()
  const slow = async (part: number, bytes: Buffer, signal: AbortSignal) => {
    if (part === 2) controller.abort()
    if (signal.aborted) throw new GatewayError('aborted')
    await send(part, bytes)
  }
  const aborted = sendParts(new BodyReader(body(), content.length), layout, slow, controller.signal)
  await t.rejects(aborted, { code: 'aborted' })
  const few = sendParts(new BodyReader(body(), content.length), { ...layout, maxParts: 5 }, send, undefined)
  await t.rejects(few, { code: 'too_large' })
})

await t.test('only contiguous parts of the expected sizes count as stored', async (t) => {
  const bytes = async (...parts: readonly (readonly [number: number, size: number])[]) =>
    (
      await contiguousParts(
        parts.map(([number, size]) => ({ number, size })),
        100,
        250,
      )
    ).bytes
  t.equal(await bytes(), 0)
  t.equal(await bytes([1, 100], [2, 100], [3, 50]), 250)
  t.equal(await bytes([1, 100], [3, 50]), 100, 'a gap')
  t.equal(await bytes([1, 100], [2, 99], [3, 50]), 100, 'a short part')
  t.equal(await bytes([2, 100]), 0, 'not the first')
  t.equal(await bytes([1, 100], [2, 100], [3, 50], [4, 100]), 250, 'more than the file has')
})
