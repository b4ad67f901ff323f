/** The file of a multipart form is read completely; truncated forms and wrong digests are errors. */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ApiError } from '../../../../protocols/http/api/errors.js'
import { eachFilePart, filePart } from '../../../../protocols/http/files/form-upload.js'
import { drain } from '../../../../protocols/lib/request-body.js'
import { GatewayError, toGatewayError } from '../../../../src/base/errors.js'
import { verifiedSource } from '../../../../src/contract/sources.js'
import { listen } from '../listen.js'
import { until } from '../../../until.js'

interface Outcome {
  bytes?: Buffer
  code?: string | number
}

/** A server that reads the file of each form, and the results. */
async function receiver(test: Test): Promise<{ url: string; asked: () => number; outcomes: Outcome[] }> {
  const outcomes: Outcome[] = []
  let asked = 0
  const url = await listen(test, (request, response) => {
    asked++
    void (async () => {
      try {
        const part = await filePart(request, new AbortController().signal)
        if (request.url === '/refuse') part.destroy()
        else outcomes.push({ bytes: await buffer(part) })
      } catch (error) {
        outcomes.push({ code: error instanceof ApiError ? error.code : toGatewayError(error).code })
      }
      response.end('done')
      await drain(request)
    })()
  })
  return { url, asked: () => asked, outcomes }
}

void t.test('the part `file` is read completely, with any parts around it', async (t) => {
  const { url, outcomes } = await receiver(t)
  const content = randomBytes(3_000_000)
  const form = new FormData()
  form.append('before', 'x')
  form.append('other', new Blob([randomBytes(200_000)]), 'other.bin')
  form.append('file', new Blob([content]), 'name.bin')
  form.append('file', new Blob(['second']), 'second.bin')
  form.append('after', 'x')
  await fetch(url, { method: 'PUT', body: form })
  t.ok(outcomes[0]?.bytes?.equals(content))
  const empty = new FormData()
  empty.append('file', new Blob([]), 'empty')
  await fetch(url, { method: 'PUT', body: empty })
  t.equal(outcomes[1]?.bytes?.length, 0)
})

void t.test('a form without the part `file` is rejected', async (t) => {
  const { url, outcomes } = await receiver(t)
  const form = new FormData()
  form.append('attachment', new Blob(['x']), 'x')
  await fetch(url, { method: 'PUT', body: form })
  t.same(outcomes, [{ code: 500 }])
})

void t.test('a truncated form is rejected', async (t) => {
  const { url, asked, outcomes } = await receiver(t)
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
  const headers = { 'content-type': 'multipart/form-data; boundary=b' }
  for (const body of [head + 'content', head + 'content\r\n--b', head, '--b\r\n', 'rubbish', '']) {
    outcomes.length = 0
    await fetch(url, { method: 'PUT', body, headers })
    t.equal(outcomes.length, 1)
    const [outcome] = outcomes
    t.ok(outcome?.code === 'invalid' || outcome?.code === 500, `${JSON.stringify(body)}: ${outcome?.code}`)
  }
  outcomes.length = 0
  await fetch(url, { method: 'PUT', body: 'x', headers: { 'content-type': 'text/plain' } })
  t.same(outcomes, [{ code: 'invalid' }])

  outcomes.length = 0
  const before = asked()
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(
    `PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nContent-Type: ${headers['content-type']}\r\n\r\n${head}abc`,
  )
  await until(() => asked() > before)
  socket.destroy()
  await until(() => outcomes.length > 0)
  t.same(outcomes, [{ code: 'aborted' }])
})

void t.test('a request whose form is not read to its end is still answered', async (t) => {
  const { url } = await receiver(t)
  const form = new FormData()
  form.append('file', new Blob([randomBytes(20_000_000)]), 'f')
  const response = await fetch(`${url}/refuse`, { method: 'PUT', body: form })
  t.equal(await response.text(), 'done')
})

/** A form of that many small files. */
function formOf(count: number): FormData {
  const form = new FormData()
  for (let number = 0; number < count; number++) form.append('file', new Blob([`content ${number}`]), `name ${number}`)
  return form
}

void t.test('the files of a form are saved one after the other, until one fails', async (t) => {
  let saving = 0
  let most = 0
  const saved: string[] = []
  const url = await listen(t, (request, response) => {
    const save = async (name: string, content: Readable) => {
      most = Math.max(most, ++saving)
      const bytes = await buffer(content)
      await new Promise((resolve) => setImmediate(resolve))
      saving--
      if (request.url === '/fail' && name === 'name 5') throw new GatewayError('no_space')
      saved.push(`${name}: ${bytes.toString()}`)
    }
    eachFilePart(request, new AbortController().signal, save).then(
      () => {
        response.end('done')
      },
      (error: unknown) => {
        response.end(toGatewayError(error).code)
        void drain(request)
      },
    )
  })
  const names = Array.from({ length: 200 }, (_, number) => `name ${number}: content ${number}`)
  t.equal(await (await fetch(url, { method: 'POST', body: formOf(200) })).text(), 'done')
  t.same(saved, names)
  t.equal(most, 1)
  saved.length = 0
  t.equal(await (await fetch(`${url}/fail`, { method: 'POST', body: formOf(200) })).text(), 'no_space')
  t.same(saved, names.slice(0, 5))
  t.equal(await (await fetch(url, { method: 'POST', body: formOf(1001) })).text(), 'too_large', 'none is left out')
})

void t.test('while a file of a form is being saved, those after it do not fill the memory', async (t) => {
  let received = 0
  const url = await listen(t, (request, response) => {
    const save = async (name: string, content: Readable) => {
      // Until nothing more arrives.
      for (let before = -1; name === 'name 0' && received !== before;) {
        before = received
        await delay(200)
        received = request.socket.bytesRead
      }
      await buffer(content)
    }
    void eachFilePart(request, new AbortController().signal, save).then(() => {
      response.end('done')
    })
  })
  const form = formOf(1)
  for (let number = 1; number < 300; number++) form.append('file', new Blob([randomBytes(100_000)]), `name ${number}`)
  t.equal(await (await fetch(url, { method: 'POST', body: form })).text(), 'done')
  t.ok(received < 5_000_000, `${received} bytes`)
})

void t.test('content with another digest than declared fails at its end', async (t) => {
  const source = (hashes: Record<string, string>) =>
    verifiedSource({ rereadable: false, hashes, read: async () => Readable.from([Buffer.from('a'), Buffer.from('b')]) })
  const md5 = '187ef4436122d1cc2f40dc2b92f0eba0'
  const sha1 = 'da23614e02469a0d7c7bd1bdab5c9c474b1904dc'
  t.equal((await buffer(await source({ md5, sha1 }).read())).toString(), 'ab')
  await t.rejects(buffer(await source({ md5, sha1: sha1.replace('d', 'e') }).read()), {
    code: 'invalid',
    reason: 'the content does not have the announced sha1',
  })
})
