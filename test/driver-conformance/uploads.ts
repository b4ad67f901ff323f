/** The contract of `upload()` and `dropUpload()`: an interrupted upload resumes with the bytes that are committed. */
import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Upload } from '../../src/contract/capabilities.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import { hashNames, type Hashes } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { byteSource } from '../../src/contract/sources.js'
import { at, bytesAt, makeFolder, missesParent, namesIn, put, refuses, textAt, without, type Run } from './subject.js'

const mebibyte = 1024 * 1024
const chunk = 256 * 1024
/** More than two parts of a backend that stores whole parts, and the beginning of another. */
const data = randomBytes(20 * mebibyte + 5)
const cutAt = 18 * mebibyte

/** Four bytes that are not those of any body. */
const four = Buffer.from('data')

/** The content as a source with the hashes that the core computes for drivers that need them. */
function hashedSource(content: Buffer): Source {
  const digests = hashNames.map((name) => [name, createHash(name).update(content).digest('hex')])
  return { ...byteSource(content), bytes: undefined, hashes: Object.fromEntries(digests) as Hashes }
}

/** Successive uploads of one file, with the token of the last one. */
class Sender {
  token: string | undefined

  constructor(
    private readonly driver: Driver,
    private readonly path: string,
  ) {}

  /** Begins or resumes an upload of this content. */
  async begin(content: Buffer, options?: WriteOptions): Promise<Upload> {
    const replace = async (token: string) => {
      this.token = token
    }
    const upload = await this.driver.upload?.(
      at(this.path),
      { size: content.length, source: hashedSource(content), resumeToken: this.token, replaceToken: replace },
      options,
    )
    if (!upload) throw new GatewayError('unsupported')
    this.token = upload.token
    return upload
  }

  /**
   * Sends the bytes that the backend lacks, up to `end`. If that is not the end of the file, the source fails there.
   */
  async send(content: Buffer, end = content.length): Promise<void> {
    const upload = await this.begin(content)
    try {
      await upload.write(bodyOf(content, upload.committedOffset, end))
    } finally {
      await upload.close()
    }
  }
}

function bodyOf(content: Buffer, start: number, end = content.length): Readable {
  const pieces = function* () {
    for (let from = start; from < end; from += chunk) yield content.subarray(from, Math.min(end, from + chunk))
    if (end < content.length) throw new GatewayError('unavailable')
  }
  return Readable.from(pieces(), { objectMode: false })
}

export async function uploadTests(run: Run): Promise<void> {
  const lacks = without('upload', 'dropUpload')

  await run(
    'upload() resumes at the committed offset, and the file is visible after its commit only',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      const sender = new Sender(driver, '/file')
      await refuses(t, () => sender.send(data, cutAt), 'unavailable', 'the source fails')
      t.equal(await textAt(driver, '/file'), 'old')
      const upload = await sender.begin(data)
      t.ok(
        upload.committedOffset >= 8 * mebibyte && upload.committedOffset <= cutAt,
        `${upload.committedOffset} bytes are committed`,
      )
      await upload.write(bodyOf(data, upload.committedOffset))
      t.equal(await textAt(driver, '/file'), 'old', 'not before its commit')
      t.same(await namesIn(driver, '/'), ['file'])
      const entry = await upload.commit()
      await upload.close()
      t.same(entry, await driver.stat(at('/file')))
      t.ok((await bytesAt(driver, '/file')).equals(data))
      t.same(await namesIn(driver, '/'), ['file'])
    },
    lacks,
  )

  await run(
    'committed bytes survive closing the driver while the upload may be resumed',
    async (t, { driver, again }) => {
      if (!again) {
        t.pass('another mount', { skip: 'the test has no way to mount the same place once more' })
        return
      }
      const sender = new Sender(driver, '/file')
      await refuses(t, () => sender.send(data, cutAt), 'unavailable', 'the source fails')
      await driver.close?.()
      const second = await again([sender.token ?? ''])
      t.same(await namesIn(second, '/'), [], 'the file is not visible')
      const later = new Sender(second, '/file')
      later.token = sender.token
      const upload = await later.begin(data)
      t.ok(upload.committedOffset >= 8 * mebibyte, `${upload.committedOffset} bytes are committed`)
      await upload.write(bodyOf(data, upload.committedOffset))
      await upload.commit()
      await upload.close()
      t.ok((await bytesAt(second, '/file')).equals(data))
      await second.close?.()
    },
    lacks,
  )

  await run(
    'a complete upload can be committed again after its first commit failed',
    async (t, { driver }) => {
      let tries = 0
      const beforePublish = async () => {
        if (++tries === 1) throw new GatewayError('busy')
      }
      const sender = new Sender(driver, '/file')
      for (const isLast of [false, true]) {
        const upload = await sender.begin(data, { beforePublish })
        await upload.write(bodyOf(data, upload.committedOffset))
        if (isLast) await upload.commit()
        else await refuses(t, () => upload.commit(), 'busy', 'the first commit')
        await upload.close()
      }
      t.equal(tries, 2)
      t.ok((await bytesAt(driver, '/file')).equals(data))
    },
    lacks,
  )

  await run(
    'dropUpload() discards the upload of a token and ignores an unknown token',
    async (t, { driver }) => {
      await put(driver, '/file', 'old')
      const sender = new Sender(driver, '/other')
      await refuses(t, () => sender.send(data, cutAt), 'unavailable', 'the source fails')
      const token = sender.token ?? ''
      await driver.dropUpload?.(token)
      await driver.dropUpload?.(token)
      const strange = ['', 'x', '/file', 'file', '{}', '[]', '../../file', `${token}x`, token.slice(1), token]
      for (const [index, resume] of strange.entries()) {
        await driver.dropUpload?.(resume)
        const other = new Sender(driver, '/other')
        other.token = resume
        // Another content each time: a backend may know one that it has stored before.
        const content = Buffer.from(`data ${index}`)
        const upload = await other.begin(content)
        t.equal(upload.committedOffset, 0, resume)
        await upload.write(bodyOf(content, 0))
        await upload.commit()
        await upload.close()
      }
      t.equal(await textAt(driver, '/other'), `data ${strange.length - 1}`)
      t.equal(await textAt(driver, '/file'), 'old', 'no other file changes')
      t.same(await namesIn(driver, '/'), ['file', 'other'])
    },
    lacks,
  )

  await run(
    'an upload with more committed bytes than the file has is not resumed',
    async (t, { driver }) => {
      const sender = new Sender(driver, '/file')
      await refuses(t, () => sender.send(data, cutAt), 'unavailable', 'the source fails')
      const upload = await sender.begin(four)
      t.equal(upload.committedOffset, 0)
      await upload.write(bodyOf(Buffer.from('data'), 0))
      await upload.commit()
      await upload.close()
      t.equal(await textAt(driver, '/file'), 'data')
    },
    lacks,
  )

  await run(
    'upload() rejects where write() rejects',
    async (t, subject) => {
      const { driver } = subject
      await makeFolder(subject, '/folder')
      await put(driver, '/file', 'old')
      await refuses(t, () => new Sender(driver, '/folder').begin(four), 'is_folder', 'over a folder')
      await refuses(t, () => new Sender(driver, '/').begin(four), 'is_folder', 'over the root')
      await missesParent(t, subject, () => new Sender(driver, '/no/file').begin(four))
      const taken = () => new Sender(driver, '/file').begin(four, { createOnly: true })
      await refuses(t, taken, 'exists', 'over a file, with createOnly')
      for (const body of ['123', '12345']) {
        const upload = await new Sender(driver, '/file').begin(four)
        await refuses(t, () => upload.write(Readable.from([Buffer.from(body)])), 'invalid', `4 bytes: ${body}`)
        await upload.close()
        await driver.dropUpload?.(upload.token)
      }
      const late = await new Sender(driver, '/new').begin(four, { createOnly: true })
      await late.write(bodyOf(four, late.committedOffset))
      await put(driver, '/new', 'first')
      await refuses(t, () => late.commit(), 'exists', 'a name that was taken meanwhile')
      await late.close()
      await driver.dropUpload?.(late.token)
      const controller = new AbortController()
      const stopped = await new Sender(driver, '/file').begin(data, { signal: controller.signal })
      const body = new Readable({ read: () => undefined })
      body.push(data.subarray(0, mebibyte))
      setTimeout(() => controller.abort(), 20)
      await refuses(t, () => stopped.write(body), 'aborted', 'an abort')
      await stopped.close()
      await driver.dropUpload?.(stopped.token)
      t.equal(await textAt(driver, '/file'), 'old')
      t.equal(await textAt(driver, '/new'), 'first')
      t.same(await namesIn(driver, '/'), ['file', 'folder', 'new'])
    },
    lacks,
  )

  await run(
    'a staged upload does not prevent removing and creating its folder',
    async (t, { driver, traits }) => {
      await driver.mkdir(at('/folder'))
      const sender = new Sender(driver, '/folder/file')
      await refuses(t, () => sender.send(data, cutAt), 'unavailable', 'the source fails')
      if (traits.emptyFolders) await driver.remove(at('/folder'))
      await driver.mkdir(at('/folder'))
      const upload = await sender.begin(data)
      await upload.write(bodyOf(data, upload.committedOffset))
      await upload.commit()
      await upload.close()
      t.ok((await bytesAt(driver, '/folder/file')).equals(data))
    },
    lacks,
  )
}
