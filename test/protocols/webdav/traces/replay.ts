/** Sends the requests of a trace, and checks what the client expects of the responses. */
import type { Test } from 'tap'
import { parseXml, serializeContent } from '../../../../protocols/webdav/xml.js'
import { find, texts, type Reply, type Send } from '../dav-client.js'
import type { Expected, Step, Trace } from './trace.js'

/** `send`: with the credentials of the client. `dav`: the URL that `{dav}` stands for. */
export async function replaySteps(
  t: Test,
  { steps, userAgent }: Pick<Trace, 'steps' | 'userAgent'>,
  { send, anonymous, dav }: { readonly send: Send; readonly anonymous: Send; readonly dav: string },
): Promise<void> {
  const kept = new Map([['dav', dav]])
  for (const [index, step] of steps.entries()) {
    const [method = '', path = ''] = step.request.split(/ (.*)/s)
    const headers = filled({ 'user-agent': userAgent, ...step.headers }, kept)
    const reply = await (step.anonymous === true ? anonymous : send)(method, path, headers, step.body)
    check(t, `${index + 1}. ${step.request}`, reply, step.answer)
    keep(step, reply, kept)
  }
}

function filled(headers: Readonly<Record<string, string>>, kept: ReadonlyMap<string, string>): Record<string, string> {
  const fill = (text: string): string => text.replace(/\{(\w+)\}/g, (whole, name: string) => kept.get(name) ?? whole)
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, fill(value)]))
}

function keep(step: Step, reply: Reply, kept: Map<string, string>): void {
  for (const [name, header] of Object.entries(step.keep ?? {})) kept.set(name, String(reply.headers[header]))
}

function check(t: Test, step: string, reply: Reply, expected: Expected): void {
  const told = reply.status === expected.status ? 'status' : reply.body.slice(0, 500)
  t.equal(reply.status, expected.status, `${step}: ${told}`)
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    compare(t, reply.headers[name], value, `${step}: ${name}`)
  }
  if (expected.body !== undefined) compare(t, reply.body, expected.body, `${step}: body`)
  if (expected.hrefs) t.same(texts(reply.body, 'href').sort(), [...expected.hrefs].sort(), `${step}: hrefs`)
  if (!expected.properties) return
  const properties = toldProperties(reply.body)
  for (const [href, wanted] of Object.entries(expected.properties)) {
    for (const [name, value] of Object.entries(wanted)) {
      compare(t, properties.get(href)?.get(name), value, `${step}: ${name} of ${href}`)
    }
  }
}

function compare(t: Test, found: unknown, expected: string | RegExp | undefined, name: string): void {
  if (expected instanceof RegExp) t.match(String(found), expected, name)
  else t.equal(found, expected, name)
}

/** The content of properties with status 200, by href and local name. */
function toldProperties(body: string): Map<string, Map<string, string>> {
  const told = new Map<string, Map<string, string>>()
  for (const response of find(parseXml(body), 'response')) {
    const properties = new Map<string, string>()
    const [href] = find(response, 'href')
    for (const group of find(response, 'propstat')) {
      const isFound = find(group, 'status').some((status) => serializeContent(status).includes(' 200 '))
      const elements = find(group, 'prop').flatMap(({ children }) => children)
      for (const element of elements) {
        if (isFound && typeof element === 'object') properties.set(element.name, plain(serializeContent(element)))
      }
    }
    if (href) told.set(serializeContent(href), properties)
  }
  return told
}

/** Decodes the entities of a text. */
function plain(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
