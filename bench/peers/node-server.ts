/**
 * The program of the bare Node server: `node node-server.js FOLDER` prints its address, and serves the folder over HTTP
 * on the loopback interface. GET sends a file, PUT streams into a temporary name and renames, MOVE renames, MKCOL
 * creates a folder. It supports neither accounts nor locks nor preconditions.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  createReadStream,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, posix } from 'node:path'
import { pipeline } from 'node:stream/promises'

const root = process.argv[2] ?? '.'
/** Files up to this size are read by one call. */
const wholeSize = 65_536

function fileOf(url: string): string {
  return join(root, posix.normalize(decodeURIComponent(new URL(url, 'http://localhost').pathname)))
}

async function get(path: string, response: ServerResponse): Promise<void> {
  const file = openSync(path, 'r')
  const { size } = fstatSync(file)
  response.setHeader('Content-Length', size)
  if (size > wholeSize) return pipeline(createReadStream('', { fd: file, highWaterMark: 2 ** 19 }), response)
  try {
    const content = Buffer.allocUnsafe(size)
    readSync(file, content, 0, size, 0)
    response.end(content)
  } finally {
    closeSync(file)
  }
}

async function put(path: string, request: IncomingMessage): Promise<void> {
  const temporary = `${path}.${randomUUID()}`
  const file = openSync(temporary, 'wx')
  try {
    try {
      for await (const chunk of request) writeSync(file, chunk as Buffer)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url = '/', headers } = request
  if (url === '/?ping') return void response.end('pong')
  const path = fileOf(url)
  if (method === 'GET') return get(path, response)
  if (method === 'PUT') await put(path, request)
  else if (method === 'MKCOL') mkdirSync(path)
  else if (method === 'MOVE') renameSync(path, fileOf(String(headers.destination)))
  else response.statusCode = 501
  if (response.statusCode === 200) response.statusCode = 201
  response.end()
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    if (response.headersSent) response.destroy()
    else response.writeHead((error as NodeJS.ErrnoException).code === 'ENOENT' ? 404 : 500).end()
  })
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`))
process.once('SIGTERM', () => process.exit(0))
