/** A strict parser of the Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/ */

const name = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const labelPattern = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/y
const helpLine = new RegExp(`^# HELP (${name}) .`)
const typeLine = new RegExp(`^# TYPE (${name}) (counter|gauge|histogram|summary|untyped)$`)
/** Numbers as Go parses them: `NaN` in any case. */
const sampleLine = new RegExp(`^(${name})(?:\\{(.*)\\})? ([nN]a[nN]|[+-]Inf|[+-]?[0-9.]+(?:e[+-]?[0-9]+)?)$`)

/** The value of each sample, by `name{label="value"}` with the labels sorted. Throws if the text is malformed. */
export function samplesOf(text: string): ReadonlyMap<string, number> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const samples = new Map<string, number>()
  const types = new Map<string, string>()
  const helped = new Set<string>()
  let family = ''
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue
    const help = helpLine.exec(line)?.[1]
    const [, typed, type] = typeLine.exec(line) ?? []
    if (help !== undefined) {
      if (helped.has(help)) throw new Error(`a second HELP of ${help}`)
      helped.add(help)
    } else if (typed !== undefined && type !== undefined) {
      if (types.has(typed)) throw new Error(`a second TYPE of ${typed}`)
      if (type === 'counter' && typed.startsWith('tidegate_') && !typed.endsWith('_total')) {
        throw new Error(`the counter ${typed} does not end with _total`)
      }
      types.set(typed, type)
      family = typed
    } else {
      const [, sample = '', labels = '', value = ''] = sampleLine.exec(line) ?? []
      const suffix = sample.startsWith(family) ? sample.slice(family.length) : undefined
      const suffixes = types.get(family) === 'histogram' ? ['_bucket', '_sum', '_count'] : ['', '_sum', '_count']
      if (suffix === undefined || !suffixes.includes(suffix)) throw new Error(`not a sample of ${family}: ${line}`)
      const key = `${sample}${sorted(labels, line)}`
      if (samples.has(key)) throw new Error(`a second ${key}`)
      samples.set(key, Number(value.replace('Inf', 'Infinity')))
    }
  }
  for (const typed of types.keys()) if (!helped.has(typed)) throw new Error(`no HELP of ${typed}`)
  assertCumulative(samples)
  return samples
}

function sorted(labels: string, line: string): string {
  if (labels === '') return ''
  const found: string[] = []
  labelPattern.lastIndex = 0
  for (let at = 0; at < labels.length; at = labelPattern.lastIndex) {
    const [, label, value] = labelPattern.exec(labels) ?? []
    if (label === undefined || value === undefined) throw new Error(`malformed labels: ${line}`)
    found.push(`${label}="${value}"`)
  }
  return `{${found.sort().join(',')}}`
}

/** Buckets of a histogram are cumulative, and the last one equals the count. */
function assertCumulative(samples: ReadonlyMap<string, number>): void {
  const last = new Map<string, number>()
  for (const [key, value] of samples) {
    const [, histogram = '', labels = ''] = /^(\w+)_bucket\{(.*)\}$/.exec(key) ?? []
    if (histogram === '') continue
    const series = `${histogram}_count{${labels.replace(/,?le="[^"]*"/, '').replace(/^,/, '')}}`.replace('{}', '')
    if (value < (last.get(series) ?? 0)) throw new Error(`${key} is less than the bucket before`)
    last.set(series, value)
  }
  for (const [series, value] of last) {
    if (samples.get(series) !== value) throw new Error(`${series} is not the last bucket`)
  }
}
