<?php
declare(strict_types=1);

final class Library
{
    private const COPIES = 'SELECT copies FROM book WHERE isbn = :isbn';

    public function __construct(private PDO $pdo)
    {
    }

    public function lend(string $isbn, int $reader): void
    {
        $this->pdo->beginTransaction();
        $find = $this->pdo->prepare(self::COPIES);
        $find->execute([':isbn' => $isbn]);
        $copies = $find->fetchColumn();
        if ($copies < 1) {
            $this->pdo->rollBack();
            throw new RuntimeException('none left');
        }
        $take = $this->pdo->prepare('UPDATE book SET copies = copies - 1 WHERE isbn = ?');
        $take->execute([$isbn]);
        $add = $this->pdo->prepare('INSERT INTO loan (isbn, reader) VALUES (:isbn, :reader)');
        $add->bindValue(':reader', $reader);
        $add->bindValue(':isbn', $isbn);
        $add->execute();
        $this->pdo->commit();
    }

    public function forget(int $reader): void
    {
        $this->pdo->exec("DELETE FROM loan WHERE reader = $reader");
    }

    public function export(string $table): array
    {
        return $this->pdo->query("SELECT * FROM {$table}")->fetchAll();
    }
}
