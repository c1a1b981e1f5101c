CREATE TABLE "Größe" (
	"日本" text,	maß	integr
);
