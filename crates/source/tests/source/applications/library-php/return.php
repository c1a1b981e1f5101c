<html>
<?php
$mysqli = new mysqli('localhost', 'web', '', 'library');
$isbn = $_POST['isbn'];
$reader = (int) $_POST['reader'];
$stmt = $mysqli->prepare("DELETE FROM loan WHERE isbn = ? AND reader = ?");
$stmt->bind_param("si", $isbn, $reader);
$stmt->execute();
$mysqli->query("UPDATE book SET copies = copies + 1 WHERE isbn = '" . $mysqli->real_escape_string($isbn) . "'");
?>
<p>Thank you.</p>
</html>
