/** The traffic of the last minutes or days, as bars. */
import { ChartColumn } from 'lucide-preact'
import { Link } from 'wouter-preact'
import type { Data } from '../api/client.ts'
import { Empty } from '../components/empty.tsx'
import { formatMinute, formatSize, formatUtcDay } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import './traffic-chart.css'

const texts = textsOf('common', 'audit')

type Traffic = Data<'/api/admin/overview'>['minutes'][number]

interface TrafficChartProps {
  readonly title: string
  /** By their start. */
  readonly traffic: readonly Traffic[]
  readonly unit: 'minute' | 'day'
}

// The days of the server are those of UTC.
const timeFormats = { minute: formatMinute, day: formatUtcDay }

/** Begins with the first minute or day that had any, so that a new server shows what there is. */
export function TrafficChart({ title, traffic, unit }: TrafficChartProps) {
  const { dashboard } = texts
  const first = traffic.findIndex((each) => each.changes + each.refusals + bytesOf(each) > 0)
  const shown = first < 0 ? [] : traffic.slice(first)
  const most = Math.max(1, ...shown.map(bytesOf))
  const sum = (name: Exclude<keyof Traffic, 'start'>) => shown.reduce((total, each) => total + each[name], 0)
  const timeOf = ({ start }: Traffic) => timeFormats[unit](start)
  const textOf = (sent: number, received: number, changes: number, refusals: number) =>
    dashboard.traffic(formatSize(sent), formatSize(received), changes, refusals)
  const all = textOf(sum('bytes_out'), sum('bytes_in'), sum('changes'), sum('refusals'))
  const [since] = shown
  if (since === undefined) {
    return (
      <figure>
        <figcaption>
          <h2>{title}</h2>
        </figcaption>
        <Empty Icon={ChartColumn} text={dashboard.noTraffic}>
          <Link href="/">{texts.toFiles}</Link>
        </Empty>
      </figure>
    )
  }
  return (
    <figure>
      <figcaption>
        <h2>{title}</h2>
        <p>{first > 0 ? texts.labelled(dashboard.since(timeOf(since)), all) : all}</p>
      </figcaption>
      <div class="chart" role="img" aria-label={texts.labelled(title, all)}>
        {shown.map((each) => (
          <span
            key={each.start}
            class="bar-pair"
            title={texts.labelled(timeOf(each), textOf(each.bytes_out, each.bytes_in, each.changes, each.refusals))}
          >
            <span class="sent" style={{ height: `${(100 * each.bytes_out) / most}%` }} />
            <span class="received" style={{ height: `${(100 * each.bytes_in) / most}%` }} />
          </span>
        ))}
      </div>
      <p class="muted legend">
        <span class="received" /> {dashboard.received} <span class="sent" /> {dashboard.sent}
      </p>
    </figure>
  )
}

function bytesOf({ bytes_in: received, bytes_out: sent }: Traffic): number {
  return received + sent
}
