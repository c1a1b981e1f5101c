import type { PoolClient } from 'pg';

export class Audit {
  constructor(private readonly client: PoolClient) {}

  async drop(id: number): Promise<void> {
    await this.client.query<{ id: number }>(`DELETE FROM orders WHERE id = ${id}`);
  }

  async rename(from: string, to: string): Promise<void> {
    const sql: string = "UPDATE customer SET email = $2 WHERE email = $1";
    await this.client.query(sql, [from, to]);
  }
}
